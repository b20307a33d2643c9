"""`ottla broker`: the embedded cluster by itself. Its options and its help are those of `python -m ottla.broker`."""

from __future__ import annotations

import typer


def broker(ctx: typer.Context) -> None:
    from ottla.broker.__main__ import main

    raise typer.Exit(main(ctx.args, program="ottla broker"))
