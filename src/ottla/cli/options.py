"""The options that commands share, and the client that is made from them.

What counts, from strongest to weakest: -X, the command's own options, the --config file, OTTLA_BOOTSTRAP.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

if TYPE_CHECKING:
    from ottla.client.blocking.client import Client
    from ottla.config import ClientConfig

BOOTSTRAP: Final = "localhost:9092"
_DEBUG: Final = "ottla.debug"
# A person waits: that no broker responds should be known sooner than after the minutes that a program has.
_REACH_SECONDS: Final = 10.0


def _remember_debug(ctx: typer.Context, debug: bool) -> bool:
    ctx.meta[_DEBUG] = debug
    return debug


def wants_traceback(ctx: Any) -> bool:
    """Whether --debug was given to the command that failed."""
    return bool(ctx.meta.get(_DEBUG))


Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT,...",
        help=f"The brokers to connect to first.  [env: OTTLA_BOOTSTRAP; default: {BOOTSTRAP}]",
    ),
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="A .properties file with Kafka's names.")
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "-X", metavar="NAME=VALUE", help="An option of the client by Kafka's name; may be repeated."
    ),
]
Debug = Annotated[
    bool,
    typer.Option("--debug", callback=_remember_debug, help="Log everything, and show where errors arise."),
]

Json = Annotated[bool, typer.Option("--json", help="A JSON object per line.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def confirm(question: str) -> None:
    """Ends the command unless the user at the terminal says yes; a mistake where there is no terminal."""
    if not sys.stdin.isatty():
        raise typer.BadParameter("this is no terminal to confirm on: --yes does it without")
    # Not typer's own prompt, which writes a space to standard output, where rows may go.
    typer.echo(f"{question} [y/N]: ", nl=False, err=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise typer.Abort


def pair(text: str, option: str, separator: str = "=") -> tuple[str, str]:
    """`name=value` as a pair."""
    name, found, value = text.partition(separator)
    if not name or not found:
        raise typer.BadParameter(f"{text!r}: expected NAME{separator}VALUE", param_hint=option)
    return name, value


def client_config(
    bootstrap: str | None,
    file: Path | None,
    options: Sequence[str] | None,
    own: Mapping[str, str],
    environment: Mapping[str, str],
) -> ClientConfig:
    """The client's options from everything that may set one."""
    from ottla.config import ClientConfig
    from ottla.config.properties import read_properties

    properties: dict[str, object] = {"bootstrap.servers": environment.get("OTTLA_BOOTSTRAP") or BOOTSTRAP}
    if file is not None:
        properties |= {name: value for _, name, value in read_properties(file)}
    if bootstrap is not None:
        properties["bootstrap.servers"] = bootstrap
    properties |= own
    properties |= dict(pair(text, "-X") for text in options or ())
    return ClientConfig.from_properties(properties)


@contextmanager
def connect(
    bootstrap: str | None,
    file: Path | None,
    options: Sequence[str] | None,
    *,
    debug: bool,
    own: Mapping[str, str] | None = None,
) -> Iterator[Client]:
    """A client for one command, whose cluster responds."""
    from ottla.client.blocking.client import Client

    _set_up_logging(debug)
    with Client(config=client_config(bootstrap, file, options, own or {}, os.environ)) as kafka:
        reach(kafka)
        yield kafka


def reach(kafka: Client) -> None:
    """Raises within seconds where no broker responds; a program's own patience is a minute."""
    kafka.admin.list_brokers(timeout=_REACH_SECONDS)


def _set_up_logging(debug: bool) -> None:
    logger = logging.getLogger("ottla")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        logging.Formatter(
            "%(asctime)s %(levelname)-7s %(name)s: %(message)s" if debug else "ottla: %(message)s"
        )
    )
    # One handler, however many commands a process runs.
    logger.handlers = [handler]
    logger.setLevel(logging.DEBUG if debug else logging.ERROR)
