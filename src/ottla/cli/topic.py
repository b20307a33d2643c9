"""`ottla topic`: list, describe, create, delete, alter, partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.options import Bootstrap, ConfigFile, Debug, Json, Options, Yes, confirm, connect, pair
from ottla.cli.output import show, unknown_topic

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.client.admin.results import ListedOffset
    from ottla.client.blocking.client import Client
    from ottla.client.topic_partition import TopicPartition

app = typer.Typer(
    help="List, describe, create, delete and change topics.\n\n"
    "\b\nExamples:\n"
    "  ottla topic create orders --partitions 6\n"
    "  ottla topic list --json",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The topic.", show_default=False)]
Names = Annotated[list[str], typer.Argument(metavar="NAME", help="The topics.", show_default=False)]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", "-s", metavar="NAME=VALUE", help="A topic config by Kafka's name; may be repeated."
    ),
]


@app.command("list")
def list_(
    internal: Annotated[bool, typer.Option("--internal", help="Those of Kafka itself too.")] = False,
    json: Json = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    option: Options = None,
    debug: Debug = False,
) -> None:
    """List topics, with their partitions and replicas.

    \b
    Examples:
      ottla topic list
      ottla topic list | cut -f 1
    """
    with connect(bootstrap, config, option, debug=debug) as kafka:
        topics = kafka.admin.list_topics(internal=internal)
        rows = [
            (name, len(topic.partitions), max((len(each.replicas) for each in topic.partitions), default=0))
            for name, topic in sorted(topics.items())
        ]
    show(("topic", "partitions", "replicas"), rows, as_json=json)


@app.command()
def describe(
    names: Names,
    configs: Annotated[
        bool, typer.Option("--configs", "-c", help="The topic's configs and where each comes from, instead.")
    ] = False,
    json: Json = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    option: Options = None,
    debug: Debug = False,
) -> None:
    """Show the partitions of topics: leader, replicas, those in sync, and offsets.

    \b
    Examples:
      ottla topic describe orders
      ottla topic describe orders --configs
    """
    with connect(bootstrap, config, option, debug=debug) as kafka:
        check_topics(kafka, names)
        for name in names:
            if configs:
                _show_configs(kafka, name, json)
            else:
                _show_partitions(kafka, name, json)


def _show_partitions(kafka: Client, name: str, as_json: bool) -> None:
    partitions = kafka.admin.describe_topic(name).partitions
    first = kafka.admin.list_offsets(name, at="earliest", errors="collect")
    end = kafka.admin.list_offsets(name, at="latest", errors="collect")
    rows = [
        (
            name,
            each.partition,
            each.leader,
            each.replicas,
            each.isr,
            _offset(first, name, each.partition),
            _offset(end, name, each.partition),
        )
        for each in partitions
    ]
    columns = ("topic", "partition", "leader", "replicas", "isr", "first_offset", "end_offset")
    show(columns, rows, as_json=as_json)


def _offset(offsets: Mapping[TopicPartition, ListedOffset], name: str, partition: int) -> int | None:
    """None where no broker knows it: a partition without a leader is shown all the same."""
    from ottla.client.topic_partition import TopicPartition

    found = offsets.get(TopicPartition(name, partition))
    return None if found is None else found.offset


def _show_configs(kafka: Client, name: str, as_json: bool) -> None:
    entries = kafka.admin.describe_configs(topic=name)
    rows = [(name, key, entry.value, entry.source.name.lower()) for key, entry in sorted(entries.items())]
    show(("topic", "config", "value", "source"), rows, as_json=as_json)


@app.command()
def create(
    names: Names,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", metavar="NUMBER", min=1, help="[default: the cluster's]"),
    ] = None,
    replicas: Annotated[
        int | None, typer.Option("--replicas", "-r", metavar="NUMBER", min=1, help="[default: the cluster's]")
    ] = None,
    settings: Settings = None,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    option: Options = None,
    debug: Debug = False,
) -> None:
    """Create topics.

    \b
    Examples:
      ottla topic create orders
      ottla topic create orders --partitions 6 --replicas 3 --set cleanup.policy=compact
    """
    with connect(bootstrap, config, option, debug=debug) as kafka:
        for name in names:
            kafka.admin.create_topic(
                name,
                partitions=-1 if partitions is None else partitions,
                replication_factor=-1 if replicas is None else replicas,
                configs=_pairs(settings),
            )
            typer.echo(f"created {name}", err=True)


@app.command()
def delete(
    names: Names,
    yes: Yes = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    option: Options = None,
    debug: Debug = False,
) -> None:
    """Delete topics and all their records; asks for confirmation first.

    \b
    Example:
      ottla topic delete orders --yes
    """
    with connect(bootstrap, config, option, debug=debug) as kafka:
        check_topics(kafka, names)
        if not yes:
            confirm(f"Delete {', '.join(names)} and all records in it?")
        for name in names:
            kafka.admin.delete_topic(name)
            typer.echo(f"deleted {name}", err=True)


@app.command()
def alter(
    name: Name,
    settings: Settings = None,
    unset: Annotated[
        list[str] | None,
        typer.Option(
            "--unset", "-u", metavar="NAME", help="A config to go back to its default; may be repeated."
        ),
    ] = None,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    option: Options = None,
    debug: Debug = False,
) -> None:
    """Change the configs of a topic; what is not named stays.

    \b
    Example:
      ottla topic alter orders --set retention.ms=3600000 --unset cleanup.policy
    """
    changes = _pairs(settings)
    if not changes and not unset:
        raise typer.BadParameter("nothing to change: give --set NAME=VALUE or --unset NAME")
    with connect(bootstrap, config, option, debug=debug) as kafka:
        check_topics(kafka, [name])
        kafka.admin.alter_configs(topic=name, set=changes, delete=unset or [])
        typer.echo(f"changed {name}", err=True)


@app.command()
def partitions(
    name: Name,
    total: Annotated[
        int, typer.Argument(metavar="TOTAL", min=1, help="How many it has then.", show_default=False)
    ],
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    option: Options = None,
    debug: Debug = False,
) -> None:
    """Give a topic more partitions; it cannot have fewer.

    Records with a key go to other partitions than before, for the partition is chosen by the number of them.

    \b
    Example:
      ottla topic partitions orders 12
    """
    with connect(bootstrap, config, option, debug=debug) as kafka:
        check_topics(kafka, [name])
        kafka.admin.create_partitions(name, total)
        typer.echo(f"{name} has {total} partitions", err=True)


def check_topics(kafka: Client, names: Iterable[str]) -> None:
    """An error for a name that does not exist, with those that come closest."""
    existing = kafka.admin.list_topics(internal=True)
    for name in names:
        if name not in existing:
            raise unknown_topic(name, existing)


def _pairs(settings: Iterable[str] | None) -> dict[str, str]:
    return dict(pair(text, "--set") for text in settings or ())
