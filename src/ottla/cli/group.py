"""`ottla group`: list, describe, lag, reset, delete, delete-offsets."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.consume import parse_start
from ottla.cli.options import Bootstrap, ConfigFile, Debug, Json, Options, Yes, confirm, connect
from ottla.cli.output import Cell, show, unknown_group, unknown_topic

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ottla.client.admin.results import GroupDescription, GroupReset
    from ottla.client.blocking.client import Client
    from ottla.client.topic_partition import TopicPartition

app = typer.Typer(
    help="List, describe, delete and move groups of consumers.\n\n"
    "\b\nExamples:\n"
    "  ottla group list\n"
    "  ottla group lag billing\n"
    "  ottla group reset billing --to earliest",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The group.", show_default=False)]
Names = Annotated[list[str], typer.Argument(metavar="NAME", help="The groups.", show_default=False)]
Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", "-t", metavar="TOPIC[:PARTITION]", help="Only this topic or partition; may be repeated."
    ),
]


@app.command("list")
def list_(
    state: Annotated[
        list[str] | None,
        typer.Option("--state", metavar="STATE", help="Only groups in this state; may be repeated."),
    ] = None,
    type_: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="TYPE", help="Only classic or consumer groups; may be repeated."),
    ] = None,
    json: Json = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    option: Options = None,
    debug: Debug = False,
) -> None:
    """List groups, with their types and states.

    \b
    Examples:
      ottla group list
      ottla group list --state empty | cut -f 1
    """
    with connect(bootstrap, config, option, debug=debug) as kafka:
        groups = kafka.admin.list_groups(states=state or (), types=type_ or ())
    rows = [(each.group_id, each.group_type, each.state, each.protocol_type) for each in groups.values()]
    show(("group", "type", "state", "protocol"), rows, as_json=json)


@app.command()
def describe(
    names: Names,
    members: Annotated[
        bool, typer.Option("--members", "-m", help="The members and what each has, instead.")
    ] = False,
    json: Json = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    option: Options = None,
    debug: Debug = False,
) -> None:
    """Show groups: type, state, assignor, coordinator, how many members; or the members.

    \b
    Examples:
      ottla group describe billing
      ottla group describe billing --members
    """
    with connect(bootstrap, config, option, debug=debug) as kafka:
        described = [_described(kafka, name) for name in names]
    rows: list[Sequence[Cell]]
    if members:
        columns: Sequence[str] = ("group", "member", "instance", "client", "host", "partitions")
        rows = [
            (
                group.group_id,
                member.member_id,
                member.instance_id,
                member.client_id,
                member.host,
                partition_list(member.assignment),
            )
            for group in described
            for member in group.members
        ]
    else:
        columns = ("group", "type", "state", "assignor", "coordinator", "members", "epoch")
        rows = [
            (
                group.group_id,
                group.group_type,
                group.state,
                group.assignor or None,
                group.coordinator,
                len(group.members),
                group.group_epoch,
            )
            for group in described
        ]
    show(columns, rows, as_json=json)


def partition_list(partitions: Iterable[TopicPartition]) -> str | None:
    """Partitions as they are read: orders:0,1 audit:0."""
    topics: dict[str, list[str]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(str(number))
    return " ".join(f"{topic}:{','.join(numbers)}" for topic, numbers in topics.items()) or None


@app.command()
def lag(
    names: Names,
    json: Json = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    option: Options = None,
    debug: Debug = False,
) -> None:
    """Show how far groups are behind in each partition, and which member has it.

    \b
    Examples:
      ottla group lag billing
      ottla group lag billing | awk '{ sum += $6 } END { print sum }'
    """
    rows: list[Sequence[Cell]] = []
    with connect(bootstrap, config, option, debug=debug) as kafka:
        for name in names:
            described = _described(kafka, name)
            owners = {partition: member for member in described.members for partition in member.assignment}
            for partition, each in kafka.admin.group_lag(name).items():
                owner = owners.get(partition)
                rows.append(
                    (
                        name,
                        partition.topic,
                        partition.partition,
                        each.committed,
                        each.end,
                        each.lag,
                        None if owner is None else owner.member_id,
                    )
                )
    show(("group", "topic", "partition", "committed", "end", "lag", "member"), rows, as_json=json)


@app.command()
def reset(
    name: Name,
    to: Annotated[
        str | None, typer.Option("--to", metavar="OFFSET", help="Where to go.", show_default=False)
    ] = None,
    shift: Annotated[
        int | None,
        typer.Option(
            "--shift", metavar="NUMBER", help="By so many records, back with a minus.", show_default=False
        ),
    ] = None,
    topic: Topics = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    yes: Yes = False,
    json: Json = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    option: Options = None,
    debug: Debug = False,
) -> None:
    """Move a group that has no members to another place; shows the move and asks for confirmation first.

    Without --topic it moves in all partitions that it has committed.

    \b
    Examples:
      ottla group reset billing --to earliest --dry-run
      ottla group reset billing --to 2026-05-01T12:00 --topic orders --yes
      ottla group reset billing --shift -100 --topic orders:0 --yes

    \b
    An OFFSET is a number, earliest, latest (or end), a time (2026-05-01T12:00, or
    @1777636800000 in milliseconds), or how long ago (-30m; s, m, h or d).
    """
    if (to is None) == (shift is None):
        raise typer.BadParameter("give one of --to and --shift")
    place = None if to is None else parse_start(to, datetime.now().astimezone(), "--to")
    wanted = parse_topics(topic)
    with connect(bootstrap, config, option, debug=debug) as kafka:
        partitions = existing_partitions(kafka, wanted) if wanted else None
        plan = kafka.admin.reset_group_offsets(name, partitions, to=place, shift=shift, dry_run=True)
        _show_reset(name, plan, json)
        if dry_run:
            return
        if not yes:
            confirm(f"Move {name} there?")
        # To the offsets that were shown: the end, and what a time stands for, may have moved on.
        kafka.admin.alter_group_offsets(name, {partition: each.after for partition, each in plan.items()})
        typer.echo(f"moved {name}", err=True)


def _show_reset(name: str, plan: Mapping[TopicPartition, GroupReset], as_json: bool) -> None:
    rows = [
        (name, partition.topic, partition.partition, each.before, each.after)
        for partition, each in plan.items()
    ]
    show(("group", "topic", "partition", "before", "after"), rows, as_json=as_json)


@app.command()
def delete(
    names: Names,
    yes: Yes = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    option: Options = None,
    debug: Debug = False,
) -> None:
    """Delete groups that have no members, with all their offsets; asks for confirmation first.

    \b
    Example:
      ottla group delete billing --yes
    """
    with connect(bootstrap, config, option, debug=debug) as kafka:
        for name in names:
            _described(kafka, name)
        if not yes:
            confirm(f"Delete {', '.join(names)} and all its offsets?")
        for name in names:
            kafka.admin.delete_group(name)
            typer.echo(f"deleted {name}", err=True)


@app.command()
def delete_offsets(
    name: Name,
    topic: Annotated[
        list[str],
        typer.Option(
            "--topic",
            "-t",
            metavar="TOPIC[:PARTITION]",
            help="The topic or partition to forget; may be repeated.",
            show_default=False,
        ),
    ],
    yes: Yes = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    option: Options = None,
    debug: Debug = False,
) -> None:
    """Delete what a group has committed for topics that none of its members reads; asks for confirmation first.

    \b
    Example:
      ottla group delete-offsets billing --topic orders --yes
    """
    wanted = parse_topics(topic)
    with connect(bootstrap, config, option, debug=debug) as kafka:
        _described(kafka, name)
        partitions = existing_partitions(kafka, wanted)
        if not yes:
            confirm(f"Delete the offsets of {name} in {', '.join(topic)}?")
        for partition in kafka.admin.delete_group_offsets(name, partitions):
            typer.echo(f"deleted {name} {partition.topic}:{partition.partition}", err=True)


def _described(kafka: Client, name: str) -> GroupDescription:
    """An error for a name that does not exist, with those that come closest."""
    from ottla.errors import GroupIdNotFoundError

    try:
        return kafka.admin.describe_group(name)
    except GroupIdNotFoundError as error:
        raise unknown_group(name, kafka.admin.list_groups(errors="collect")) from error


def parse_topics(topics: Iterable[str] | None, option: str = "--topic") -> list[tuple[str, int | None]]:
    """TOPIC or TOPIC:PARTITION; a colon is in no topic's name."""
    wanted: list[tuple[str, int | None]] = []
    for text in topics or ():
        topic, colon, number = text.partition(":")
        if not topic or (colon and not number.isdecimal()):
            raise typer.BadParameter(f"{text!r}: expected TOPIC or TOPIC:PARTITION", param_hint=option)
        wanted.append((topic, int(number) if colon else None))
    return wanted


def existing_partitions(
    kafka: Client, wanted: Iterable[tuple[str, int | None]]
) -> list[str | TopicPartition]:
    """The topics, or partitions of them, once it is known that the topics exist."""
    from ottla.client.topic_partition import TopicPartition

    existing = kafka.admin.list_topics(internal=True)
    found: list[str | TopicPartition] = []
    for topic, number in wanted:
        if topic not in existing:
            raise unknown_topic(topic, existing)
        found.append(topic if number is None else TopicPartition(topic, number))
    return found
