"""The commands put together, and what all of them do about an error: one line, and an exit code."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import ottla.cli.consume
import ottla.cli.group
import ottla.cli.pipeline
import ottla.cli.produce
import ottla.cli.topic
import ottla.cli.txn
from ottla.cli.options import wants_traceback
from ottla.cli.output import error_line
from ottla.errors import ConfigurationError, KafkaError

_HELP = """Kafka from a shell: a cluster to try things on, records in and out, topics, groups, transactions.

\b
Try it, in two terminals:
  ottla broker --topic orders:3
  echo hello | ottla produce orders
  ottla consume orders --from earliest

The cluster is found through --bootstrap, else the environment variable OTTLA_BOOTSTRAP, else localhost:9092.
"""


class Commands(TyperGroup):
    """The root of all commands. Errors end here, also when a test runner stands in for the shell."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (KafkaError, OSError, ValueError) as error:
            if wants_traceback(ctx):
                traceback.print_exception(error)
            typer.echo(f"ottla: {error_line(error)}", err=True)
            # A mistake in the command, as those that typer finds itself, or a failure.
            raise typer.Exit(2 if isinstance(error, ConfigurationError) else 1) from error


# Without rich in the help: it would double the time that `--help` takes, and fold the examples.
app = typer.Typer(
    name="ottla",
    cls=Commands,
    help=_HELP,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.command(
    help="Run a cluster until Ctrl-C, for tests and local work; or dump its files.",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    add_help_option=False,
)
def broker(ctx: typer.Context) -> None:
    """The embedded cluster by itself. Its options and its help are those of `python -m ottla.broker`."""
    from ottla.broker.__main__ import main

    raise typer.Exit(main(ctx.args, program="ottla broker"))


app.command("produce")(ottla.cli.produce.produce)
app.command("consume")(ottla.cli.consume.consume)
app.add_typer(ottla.cli.topic.app, name="topic")
app.add_typer(ottla.cli.group.app, name="group")
app.add_typer(ottla.cli.txn.app, name="txn")
app.add_typer(ottla.cli.pipeline.app, name="pipeline")


def _version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        typer.echo(f"ottla {version('ottla')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Takes what is said before the command; its help is the app's."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line, for the shell; the exit code."""
    try:
        app(args=sys.argv[1:] if arguments is None else list(arguments), prog_name="ottla")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    return 0
