"""`ottla txn`: list, describe, producers, find-hanging, abort."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ottla.cli.group import existing_partitions, parse_topics, partition_list
from ottla.cli.options import Bootstrap, ConfigFile, Debug, Json, Options, Yes, confirm, connect
from ottla.cli.output import Cell, show, unknown_transaction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.client.admin.results import TransactionDescription
    from ottla.client.blocking.client import Client

app = typer.Typer(
    help="Look at the transactions of producers, and end those that hang.\n\n"
    "\b\nExamples:\n"
    "  ottla txn list --state ongoing\n"
    "  ottla txn describe billing-1\n"
    "  ottla txn find-hanging",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_DURATION: Final = re.compile(r"(\d+)([smhd]?)")
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


@app.command("list")
def list_(
    state: Annotated[
        list[str] | None,
        typer.Option("--state", metavar="STATE", help="Only ids in this state; may be repeated."),
    ] = None,
    producer_id: Annotated[
        list[int] | None,
        typer.Option(
            "--producer-id", metavar="NUMBER", help="Only the id of this producer; may be repeated."
        ),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="TIME", help="Only transactions that began longer ago."),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option(
            "--pattern", metavar="REGEX", help="Only ids that a regular expression matches as a whole."
        ),
    ] = None,
    json: Json = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    option: Options = None,
    debug: Debug = False,
) -> None:
    """List transactional ids, with the states of their last transactions.

    A TIME is a number of seconds, or one with s, m, h or d: 90, 15m.

    \b
    Examples:
      ottla txn list --state ongoing --older-than 1m
      ottla txn list --pattern 'billing-.*' | cut -f 1
    """
    age = None if older_than is None else parse_duration(older_than, "--older-than")
    with connect(bootstrap, config, option, debug=debug) as kafka:
        listed = kafka.admin.list_transactions(
            states=state or (), producer_ids=producer_id or (), older_than=age, pattern=pattern
        )
    rows = [
        (each.transactional_id, each.state, each.producer_id, each.coordinator) for each in listed.values()
    ]
    show(("id", "state", "producer_id", "coordinator"), rows, as_json=json)


@app.command()
def describe(
    ids: Annotated[
        list[str], typer.Argument(metavar="ID", help="The transactional ids.", show_default=False)
    ],
    json: Json = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    option: Options = None,
    debug: Debug = False,
) -> None:
    """Show transactional ids: state, producer, when the transaction began, and what it has written to.

    \b
    Example:
      ottla txn describe billing-1
    """
    with connect(bootstrap, config, option, debug=debug) as kafka:
        described = [_described(kafka, each) for each in ids]
    columns = (
        *("id", "state", "producer_id", "epoch", "timeout_ms", "started"),
        *("coordinator", "partitions"),
    )
    rows: list[Sequence[Cell]] = [
        (
            each.transactional_id,
            each.state,
            each.producer_id,
            each.producer_epoch,
            each.timeout_ms,
            moment(each.started_at),
            each.coordinator,
            partition_list(each.partitions),
        )
        for each in described
    ]
    show(columns, rows, as_json=json)


@app.command()
def producers(
    topics: Annotated[
        list[str],
        typer.Argument(metavar="TOPIC[:PARTITION]", help="The topics or partitions.", show_default=False),
    ],
    broker: Annotated[
        int | None,
        typer.Option("--broker", metavar="NUMBER", help="Ask the replicas on this broker, not the leaders."),
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Only those with an open transaction.")] = False,
    json: Json = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    option: Options = None,
    debug: Debug = False,
) -> None:
    """Show the idempotent and transactional producers that partitions remember.

    The last column is the offset at which an open transaction begins.

    \b
    Examples:
      ottla txn producers orders:0
      ottla txn producers orders --open
    """
    wanted = parse_topics(topics, "TOPIC")
    with connect(bootstrap, config, option, debug=debug) as kafka:
        partitions = existing_partitions(kafka, wanted)
        found = kafka.admin.describe_producers(partitions, broker=broker)
    rows: list[Sequence[Cell]] = [
        (
            partition.topic,
            partition.partition,
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            moment(each.last_timestamp),
            None if each.coordinator_epoch < 0 else each.coordinator_epoch,
            each.transaction_start_offset,
        )
        for partition, states in found.items()
        for each in states
        if not open_ or each.transaction_start_offset is not None
    ]
    columns = (
        *("topic", "partition", "producer_id", "epoch", "last_sequence", "last_time"),
        *("coordinator_epoch", "open_from"),
    )
    show(columns, rows, as_json=json)


@app.command()
def find_hanging(
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", metavar="TOPIC[:PARTITION]", help="Look only here; may be repeated."),
    ] = None,
    broker: Annotated[
        int | None,
        typer.Option("--broker", metavar="NUMBER", help="Look only in partitions that this broker leads."),
    ] = None,
    max_timeout: Annotated[
        str,
        typer.Option(
            "--max-timeout", metavar="TIME", help="transaction.max.timeout.ms of the brokers, or more."
        ),
    ] = "15m",
    json: Json = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    option: Options = None,
    debug: Debug = False,
) -> None:
    """Find transactions that are open in a partition, and that no coordinator will end.

    Readers of committed records get no further than such a one. `ottla txn abort` ends it.

    \b
    Examples:
      ottla txn find-hanging
      ottla txn find-hanging --topic orders --max-timeout 1h
    """
    wanted = parse_topics(topic)
    longest = parse_duration(max_timeout, "--max-timeout")
    with connect(bootstrap, config, option, debug=debug) as kafka:
        partitions = existing_partitions(kafka, wanted) if wanted else None
        found = kafka.admin.find_hanging_transactions(partitions, broker=broker, max_timeout=longest)
    rows = [
        (
            each.partition.topic,
            each.partition.partition,
            each.producer.producer_id,
            each.producer.producer_epoch,
            each.producer.transaction_start_offset,
            moment(each.producer.last_timestamp),
            each.transactional_id,
        )
        for each in found
    ]
    columns = ("topic", "partition", "producer_id", "epoch", "open_from", "last_time", "id")
    show(columns, rows, as_json=json)


@app.command()
def abort(
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic", "-t", metavar="TOPIC:PARTITION", help="Where a transaction hangs.", show_default=False
        ),
    ] = None,
    start_offset: Annotated[
        int | None,
        typer.Option(
            "--start-offset", metavar="OFFSET", min=0, help="Where it begins there.", show_default=False
        ),
    ] = None,
    id_: Annotated[
        str | None,
        typer.Option(
            "--id", metavar="ID", help="Instead: whatever a transactional id has open.", show_default=False
        ),
    ] = None,
    yes: Yes = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    option: Options = None,
    debug: Debug = False,
) -> None:
    """Abort a transaction that hangs in a partition, or one that its coordinator knows; asks for confirmation first.

    What hangs is named by --topic and --start-offset, as find-hanging shows it: its records in that partition count
    as aborted. With --id the coordinator aborts the transaction in all its partitions, and its producer can write no
    more.

    \b
    Examples:
      ottla txn abort --topic orders:0 --start-offset 42
      ottla txn abort --id billing-1 --yes
    """
    if id_ is not None:
        if topic is not None or start_offset is not None:
            raise typer.BadParameter("--id is instead of --topic and --start-offset")
    elif topic is None or start_offset is None:
        raise typer.BadParameter("give --topic and --start-offset, or --id")
    with connect(bootstrap, config, option, debug=debug) as kafka:
        if id_ is not None:
            _terminate(kafka, id_, yes)
        elif topic is not None and start_offset is not None:
            _abort_there(kafka, topic, start_offset, yes)


def _terminate(kafka: Client, transactional_id: str, yes: bool) -> None:
    described = _described(kafka, transactional_id)
    if not yes:
        where = partition_list(described.partitions) or "nothing yet"
        confirm(
            f"Abort what {transactional_id} has open ({described.state}, {where}), and shut its producer out?"
        )
    kafka.admin.force_terminate_transaction(transactional_id)
    typer.echo(f"aborted {transactional_id}", err=True)


def _abort_there(kafka: Client, topic: str, start_offset: int, yes: bool) -> None:
    from ottla.client.topic_partition import TopicPartition

    (partition,) = existing_partitions(kafka, parse_topics([topic]))
    if not isinstance(partition, TopicPartition):
        raise typer.BadParameter(f"{topic!r}: expected TOPIC:PARTITION", param_hint="--topic")
    if not yes:
        confirm(f"Abort the transaction that begins at offset {start_offset} of {topic}?")
    ended = kafka.admin.abort_transaction(partition, start_offset=start_offset)
    typer.echo(f"aborted the transaction of producer {ended.producer_id} in {topic}", err=True)


def _described(kafka: Client, transactional_id: str) -> TransactionDescription:
    """An error for an id that does not exist, with those that come closest."""
    from ottla.errors import TransactionalIdNotFoundError

    try:
        return kafka.admin.describe_transaction(transactional_id)
    except TransactionalIdNotFoundError as error:
        raise unknown_transaction(
            transactional_id, kafka.admin.list_transactions(errors="collect")
        ) from error


def parse_duration(text: str, option: str) -> float:
    """Seconds: 90, 90s, 15m, 1h, 2d."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise typer.BadParameter(f"{text!r}: expected a time such as 90, 15m, 1h or 2d", param_hint=option)
    return float(int(found[1]) * _SECONDS[found[2]])


def moment(milliseconds: int | None) -> str | None:
    """A time as brokers have it, for people; None where they have none."""
    if milliseconds is None or milliseconds < 0:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
