"""`ottla produce`: lines, JSON or a file into a topic. Reading never runs ahead of what the cluster takes."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final, Literal

import typer

from ottla.cli.options import Bootstrap, ConfigFile, Debug, Options, connect, pair
from ottla.cli.output import error_line, unknown_topic
from ottla.cli.record_formats import InputError, InputReader, InputRecord
from ottla.errors import DeliveryError, KafkaError, UnknownTopicOrPartitionError

if TYPE_CHECKING:
    from ottla.client.blocking.client import Client
    from ottla.wire.records import Delivery

_INTERRUPTED: Final = 130
_PROGRESS_SECONDS: Final = 0.2


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where to.", show_default=False)],
    values: Annotated[
        list[str] | None, typer.Argument(metavar="VALUE", help="The records; without any: standard input.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", "-k", metavar="KEY", help="The key of every record.")
    ] = None,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-K", metavar="SEP", help="Lines are KEY, SEP, VALUE.")
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header", "-H", metavar="NAME=VALUE", help="A header of every record; may be repeated."
        ),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option(
            "--partition", "-p", metavar="NUMBER", min=0, help="The partition; else by key, or evenly."
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", "-f", metavar="FILE", help="Read this instead of standard input.", dir_okay=False
        ),
    ] = None,
    format: Annotated[
        Literal["lines", "json", "raw"],
        typer.Option(
            "--format", help="A record per line, a JSON object per line, or all input as one record."
        ),
    ] = "lines",
    acks: Annotated[
        Literal["all", "1", "0"] | None,
        typer.Option(
            "--acks", help="Which replicas must have a record: all in sync, the leader, none.  [default: all]"
        ),
    ] = None,
    compression: Annotated[
        Literal["none", "gzip", "snappy", "lz4", "zstd"] | None,
        typer.Option("--compression", "-z", help="How batches are compressed.  [default: none]"),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary.")] = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    option: Options = None,
    debug: Debug = False,
) -> None:
    """Produce records, from standard input, a file or the command line.

    \b
    Examples:
      echo hello | ottla produce orders
      ottla produce orders first second -k customer-1 -H trace=7
      ottla produce orders --key-separator : --file orders.txt
      ottla consume orders --until end --format json | ottla produce copy --format json

    A JSON line has "value", and may have "key", "headers", "partition" and "timestamp"; bytes that are no text go
    into "value_base64" and "key_base64". Producing stops at the first record that fails: exit code 1.
    """
    if key is not None and key_separator is not None:
        raise typer.BadParameter("--key is for every record, --key-separator for each: give one of them")
    if values and file is not None:
        raise typer.BadParameter("records are in --file or on the command line, not both")
    reader = InputReader(
        format,
        None if key is None else key.encode(),
        None if key_separator is None else _separator(key_separator),
        tuple((name, value.encode()) for name, value in (pair(text, "--header") for text in header or ())),
        partition,
    )
    chosen = {"acks": acks, "compression.type": compression}
    own = {name: value for name, value in chosen.items() if value is not None}
    with (
        connect(bootstrap, config, option, debug=debug, own=own) as kafka,
        _input(values, file) as source,
    ):
        records = reader.arguments(values) if values else reader.file(source)
        run = Run(kafka, topic, quiet=quiet)
        raise typer.Exit(run.produce(records))


def _separator(text: str) -> bytes:
    if not text:
        raise typer.BadParameter("--key-separator is empty: keys could not be separated from values")
    # \t cannot be typed on every shell.
    return text.replace("\\t", "\t").encode()


@contextmanager
def _input(values: list[str] | None, file: Path | None) -> Iterator[BinaryIO]:
    if file is not None and str(file) != "-":
        with file.open("rb") as opened:
            yield opened
        return
    if not values and sys.stdin.isatty():
        typer.echo("Reading standard input; Ctrl-D ends it.", err=True)
    yield sys.stdin.buffer


class Run:
    """One run of the command: produces, counts what became of each record, and reports."""

    def __init__(self, kafka: Client, topic: str, *, quiet: bool) -> None:
        self._kafka = kafka
        self._topic = topic
        self._quiet = quiet
        self._progress = sys.stderr.isatty() and not quiet
        self._shown_at = self._began = time.monotonic()
        self._refused = 0
        """Records that were never handed over."""
        # Written by the thread that runs the client's loop, read here.
        self._delivered = 0
        self._bytes = 0
        self._given_up = 0
        self._failure: BaseException | None = None

    def produce(self, records: Iterable[InputRecord]) -> int:
        """Everything that is read until something fails; the exit code."""
        code = 0
        try:
            self._send_all(records)
            self._settle()
        except KeyboardInterrupt:
            # What was read is still delivered; the next Ctrl-C ends that too.
            code = _INTERRUPTED
            self._settle()
        self._report()
        return 1 if self._failure is not None else code

    def _send_all(self, records: Iterable[InputRecord]) -> None:
        try:
            for record in records:
                self._send(record)
                if self._failure is not None:
                    return
        except InputError as error:
            # It names its line. What was read before is on its way.
            self._failure = error

    def _send(self, record: InputRecord) -> None:
        try:
            delivery = self._kafka.produce(
                self._topic,
                record.value,
                key=record.key,
                headers=record.headers or None,
                partition=record.partition,
                timestamp=record.timestamp,
            )
        except (KafkaError, ValueError) as error:
            self._refused += 1
            self._fail(record.line, error)
            return
        size = len(record.value or b"") + len(record.key or b"")
        delivery.add_done_callback(partial(self._done, record.line, size))
        if self._progress:
            self._show_progress()

    def _done(self, line: int, size: int, delivery: Delivery) -> None:
        if delivery.error is None:
            self._delivered += 1
            self._bytes += size
        else:
            self._given_up += 1
            self._fail(line, delivery.error)

    def _fail(self, line: int, error: BaseException) -> None:
        if self._failure is None:
            error.add_note(f"it was record {line} of the input")
            self._failure = error

    def _settle(self) -> None:
        try:
            self._kafka.flush()
        except DeliveryError:
            # Counted already, record by record, with the first error.
            assert self._failure is not None

    def _show_progress(self) -> None:
        now = time.monotonic()
        if now - self._shown_at >= _PROGRESS_SECONDS:
            self._shown_at = now
            typer.echo(f"\r{self._delivered:,} records, {_size(self._bytes)} ", nl=False, err=True)

    def _report(self) -> None:
        if self._progress and self._shown_at != self._began:
            typer.echo("\r", nl=False, err=True)
        if self._failure is not None:
            typer.echo(f"ottla: {error_line(self._explained(self._failure))}", err=True)
        failed = self._refused + self._given_up
        if not self._quiet or failed:
            seconds = time.monotonic() - self._began
            lost = f", {failed:,} failed" if failed else ""
            records = "record" if self._delivered == 1 else "records"
            typer.echo(
                f"{self._delivered:,} {records} ({_size(self._bytes)}) to {self._topic} in {seconds:.2f} s{lost}",
                err=True,
            )

    def _explained(self, error: BaseException) -> BaseException:
        if not isinstance(error, UnknownTopicOrPartitionError):
            return error
        names = self._kafka.admin.list_topics()
        return error if self._topic in names else unknown_topic(self._topic, names)


def _size(count: float) -> str:
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
