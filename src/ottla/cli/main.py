"""Where the `ottla` command begins. Nothing here needs the extra, so that its absence can be explained."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ottla._extras import require
from ottla.errors import MissingExtraError


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code: 0, 1 after a failure, 2 after a mistake in the usage."""
    try:
        require("typer", extra="cli", purpose="the ottla command")
    except MissingExtraError as error:
        sys.stderr.write(f"ottla: {error}\n")
        return 1
    from ottla.cli.app import run

    return run(arguments)
