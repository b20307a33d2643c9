"""`ottla consume`: topics to standard output, from an offset or a time on, for good or up to another.

Here too: what may stand behind `--from` and `--until`. How records are written is in `record_formats`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final

import typer

from ottla.cli.options import Bootstrap, ConfigFile, Debug, Options, connect
from ottla.cli.output import unknown_topic
from ottla.cli.record_formats import Render, renderer
from ottla.errors import ConfigurationError, KafkaError

if TYPE_CHECKING:
    from ottla.client.blocking.client import Client
    from ottla.client.blocking.consumer import Consumer
    from ottla.client.topic_partition import TopicPartition

_INTERRUPTED: Final = 130
# Records per write to standard output: enough that the system call does not count.
_POLL_RECORDS: Final = 2_000
# Reading a topic must not create it: a misspelt name would be silence instead of an error.
_OWN: Final = {"allow.auto.create.topics": "false"}

OffsetArgument = str | int | datetime
"""What --from and --until say, as the client takes it."""

_AGO: Final = re.compile(r"-(\d+)([smhd])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_FORMS: Final = (
    "an offset such as 42, a time such as 2026-05-01T12:00 or @1777636800000 (milliseconds), or how long ago, "
    "such as -30m or -2h (s, m, h, d)"
)


def consume(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC", help="What to read.", show_default=False)],
    start: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="OFFSET", help="Where to begin.  [default: latest; earliest with --until]"
        ),
    ] = None,
    stop: Annotated[
        str | None,
        typer.Option(
            "--until", metavar="OFFSET", help="Where to end: `end` is the end as of now.  [default: never]"
        ),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(
            "--count", "-n", metavar="NUMBER", min=1, help="End after so many records.", show_default=False
        ),
    ] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option(
            "--partition", "-p", metavar="NUMBER", min=0, help="Only this partition; may be repeated."
        ),
    ] = None,
    format: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="value, raw, json, or a template.")
    ] = "value",
    regex: Annotated[
        bool,
        typer.Option("--regex", "-r", help="Topics are regular expressions; new ones join by themselves."),
    ] = False,
    committed: Annotated[
        bool, typer.Option("--committed", help="Leave out records of transactions that are open or aborted.")
    ] = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    option: Options = None,
    debug: Debug = False,
) -> None:
    """Write the records of topics to standard output.

    \b
    Examples:
      ottla consume orders                                  what is written from now on, until Ctrl-C
      ottla consume orders --from earliest --until end      everything there is
      ottla consume orders --from -2h --format json         the last two hours, and what follows
      ottla consume orders -p 0 --from 42 -n 1              one record
      ottla consume '^orders\\..*' --regex --format '%t %p %o: %k %v'

    \b
    An OFFSET is a number, earliest, latest (or end), a time (2026-05-01T12:00, or
    @1777636800000 in milliseconds), or how long ago (-30m; s, m, h or d).

    \b
    A template has %t topic, %p partition, %o offset, %T timestamp, %k key, %v value,
    %h headers, %K and %V lengths, %%, and \\n \\t \\0; a newline follows unless it ends with one.
    """
    now = datetime.now().astimezone()
    begin = parse_start(start or ("earliest" if stop else "latest"), now)
    end = None if stop is None else parse_stop(stop, now)
    render = renderer(format)
    if regex and partition:
        raise typer.BadParameter("--partition names partitions of a topic, --regex takes whole topics")
    patterns = _patterns(topics) if regex else []
    own = {**_OWN, **({"isolation.level": "read_committed"} if committed else {})}
    with connect(bootstrap, config, option, debug=debug, own=own) as kafka:
        subscription = patterns or _existing(kafka, topics, partition)
        with kafka.consume(*subscription, start=begin, stop=end) as consumer:
            _write(consumer, render, sys.stdout.buffer, count, bounded=stop is not None or count is not None)


def _patterns(topics: Sequence[str]) -> list[re.Pattern[str]]:
    try:
        return [re.compile(topic) for topic in topics]
    except re.error as error:
        raise typer.BadParameter(f"{error.pattern!r} is no regular expression: {error}") from error


def _existing(
    kafka: Client, topics: Sequence[str], partitions: Iterable[int] | None
) -> list[str | TopicPartition]:
    """The topics, or partitions of them, once it is known that they exist."""
    from ottla.client.topic_partition import TopicPartition

    existing = kafka.admin.list_topics(internal=True)
    for topic in topics:
        if topic not in existing:
            raise unknown_topic(topic, existing)
        count = len(existing[topic].partitions)
        for partition in partitions or ():
            if partition >= count:
                raise KafkaError(f"{topic} has no partition {partition}, only 0 to {count - 1}")
    if not partitions:
        return list(topics)
    return [TopicPartition(topic, partition) for topic in topics for partition in partitions]


def _write(consumer: Consumer, render: Render, output: BinaryIO, count: int | None, *, bounded: bool) -> None:
    """Writes until the end, the count, Ctrl-C, or until the reader of the pipe is gone."""
    try:
        _copy(consumer, render, output, count)
    except BrokenPipeError:
        # `| head` has enough. Python would flush once more as it exits, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())
    except KeyboardInterrupt:
        # To a user who follows a topic, Ctrl-C is how it ends and no failure.
        raise typer.Exit(_INTERRUPTED if bounded else 0) from None


def _copy(consumer: Consumer, render: Render, output: BinaryIO, count: int | None) -> None:
    left = count
    while left is None or left > 0:
        records = consumer.poll(_POLL_RECORDS if left is None else min(left, _POLL_RECORDS))
        if not records:
            return
        output.write(b"".join([render(record) for record in records]))
        # A user who waits for a record sees it now; a poll that brings many flushes once for all of them.
        output.flush()
        if left is not None:
            left -= len(records)


# --from and --until


class OffsetArgumentError(ConfigurationError):
    """A --from or --until that cannot be understood; the message lists the forms."""


def parse_start(text: str, now: datetime, option: str = "--from") -> OffsetArgument:
    """Where to begin: "earliest", "latest", an offset or a time."""
    if text in ("earliest", "beginning", "start"):
        return "earliest"
    if text in ("latest", "end"):
        return "latest"
    return _offset_or_time(text, now, f"{option} {text}: expected earliest, latest, {_FORMS}")


def parse_stop(text: str, now: datetime) -> OffsetArgument:
    """Where to end: "latest" (what is the end now), an offset or a time; that itself is no longer read."""
    if text in ("latest", "end"):
        return "latest"
    return _offset_or_time(text, now, f"--until {text}: expected end, {_FORMS}")


def _offset_or_time(text: str, now: datetime, complaint: str) -> OffsetArgument:
    if text.isdecimal():
        return int(text)
    try:
        if text.startswith("@"):
            return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=int(text[1:]))
        if ago := _AGO.fullmatch(text):
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        found = datetime.fromisoformat(text)
    except (ValueError, OverflowError) as error:
        raise OffsetArgumentError(complaint) from error
    # Without a zone it is the time on the wall.
    return found if found.tzinfo is not None else found.astimezone()
