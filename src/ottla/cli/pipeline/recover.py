"""`ottla pipeline recover`: what a Spark query that is gone has left of its exactly-once writes, shown or ended."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ottla.cli.options import Bootstrap, ConfigFile, Debug, Json, Options, Yes, confirm, connect
from ottla.cli.output import Cell, show
from ottla.cli.txn import moment
from ottla.errors import KafkaError

if TYPE_CHECKING:
    from ottla.client.blocking.client import Client
    from ottla.client.topic_partition import TopicPartition
    from ottla.spark.sink.exactly_once.names import SinkNames
    from ottla.spark.sink.exactly_once.recovery import SinkState
    from ottla.spark.sink.recover import RecoverAction

_PREFIX: Final = "ottla-sink-"


def recover(
    sink: Annotated[
        str,
        typer.Option(
            "--sink",
            metavar="ID",
            help="The query's option ottla.sink.id, or its query id.",
            show_default=False,
        ),
    ],
    finish: Annotated[
        bool, typer.Option("--finish", help="Commit what the query had decided, abort the rest.")
    ] = False,
    abort: Annotated[
        bool, typer.Option("--abort", help="Abort what it had not decided, leave the rest.")
    ] = False,
    forget: Annotated[
        bool, typer.Option("--forget", help="Finish, and let another query use the sink id.")
    ] = False,
    control_topic: Annotated[
        str, typer.Option("--control-topic", metavar="TOPIC", help="If it is not called after the sink.")
    ] = "",
    yes: Yes = False,
    json: Json = False,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    option: Options = None,
    debug: Debug = False,
) -> None:
    """Show what a query that is gone has left: open transactions, the last decision, and who waits for it.

    A query that is started again does all of this by itself. This is for one that will not be: readers of committed
    records wait in the partitions that are shown as blocked, until its transactions are ended, or time out.

    --finish, --abort and --forget ask for confirmation first. They shut the query out, if it still runs after all.

    \b
    Examples:
      ottla pipeline recover --sink billing
      ottla pipeline recover --sink billing --finish --yes
      ottla pipeline recover --sink billing --json | jq .blocked
    """
    action = _action(finish=finish, abort=abort, forget=forget)
    names = _names(sink, control_topic)
    own = {"transactional.id": names.driver_id}
    with connect(bootstrap, config, option, debug=debug, own=own) as kafka:
        state = _recovered(kafka, names, "show")
        if action != "show":
            if not yes:
                confirm(_question(action, state))
            state = _recovered(kafka, names, action)
        held = _held(kafka, state)
    if json:
        typer.echo(json_module.dumps(_as_json(state, held), ensure_ascii=False))
    else:
        show(("what", "where", "detail"), _rows(state, held), as_json=False)
    if action == "show":
        return
    typer.echo(_done(action, state), err=True)
    if state.lost:
        raise KafkaError(
            f"of batch {state.last and state.last.batch_id} the rows of slots {_listed(state.lost)} are neither "
            "committed nor open: start the query again from its checkpoint, which writes them once more"
        )


def _action(*, finish: bool, abort: bool, forget: bool) -> RecoverAction:
    wanted: list[RecoverAction] = []
    if finish:
        wanted.append("finish")
    if abort:
        wanted.append("abort")
    if forget:
        wanted.append("forget")
    if len(wanted) > 1:
        raise typer.BadParameter("give one of --finish, --abort and --forget")
    return wanted[0] if wanted else "show"


def _names(sink: str, control_topic: str) -> SinkNames:
    from ottla.spark.sink.exactly_once.names import SinkNames

    try:
        return SinkNames(sink, control_topic)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _recovered(kafka: Client, names: SinkNames, action: RecoverAction) -> SinkState:
    """An error for a sink that does not exist, with those that come closest."""
    from ottla.spark.sink.exactly_once.recovery import UnknownSinkError
    from ottla.spark.sink.recover import RECOVERIES

    try:
        return kafka.run(lambda client: RECOVERIES[action](client, names))
    except UnknownSinkError as error:
        sinks = [
            topic.removeprefix(_PREFIX) for topic in kafka.admin.list_topics() if topic.startswith(_PREFIX)
        ]
        if close := get_close_matches(names.sink_id, sorted(sinks), n=3):
            error.add_note(f"did you mean {' or '.join(close)}?")
        raise


def _question(action: RecoverAction, state: SinkState) -> str:
    sink = state.names.sink_id
    decided = [left.slot for left in state.open if left.is_decided]
    undecided = [left.slot for left in state.open if not left.is_decided]
    commits = f"commit what is decided (slots {_listed(decided)})"
    aborts = f"abort what is not (slots {_listed(undecided)})"
    match action:
        case "finish":
            what = f"{commits}, {aborts}"
        case "abort":
            what = aborts
        case _:
            what = f"{commits}, {aborts}, and delete {state.names.control_topic}"
    return f"Sink {sink}: {what}? If its query still runs, it is shut out."


def _done(action: RecoverAction, state: SinkState) -> str:
    done = {"finish": "finished", "abort": "aborted what was undecided of", "forget": "forgot"}[action]
    left = "" if not state.open else f"; slots {_listed(left.slot for left in state.open)} are still open"
    return f"{done} sink {state.names.sink_id}{left}"


# What is shown

_Held = dict["TopicPartition", tuple[tuple[int, ...], int | None, int | None]]
"""Which slots hold a partition; where its committed records end, and where all of them do."""


def _held(kafka: Client, state: SinkState) -> _Held:
    waiting = {
        partition: slots
        for partition, slots in state.blocked.items()
        if partition.topic != state.names.control_topic
    }
    if not waiting:
        return {}
    stable = kafka.admin.list_offsets(list(waiting), "latest", isolation="read_committed", errors="collect")
    ends = kafka.admin.list_offsets(list(waiting), "latest", errors="collect")
    return {
        partition: (
            slots,
            stable[partition].offset if partition in stable else None,
            ends[partition].offset if partition in ends else None,
        )
        for partition, slots in waiting.items()
    }


def _rows(state: SinkState, held: _Held) -> list[Sequence[Cell]]:
    rows: list[Sequence[Cell]] = []
    if state.last is not None:
        last = state.last
        listed = _listed(slot for slot, _ in last.transactions)
        rows.append(
            (
                "decision",
                f"batch {last.batch_id}",
                f"query {last.query_id}, {last.tasks} tasks, slots {listed}",
            )
        )
    rows += [
        ("marker", f"slot {slot}", f"batch {marker.batch_id}, query {marker.query_id}")
        for slot, marker in sorted(state.markers.items())
    ]
    if state.driver_is_open:
        rows.append(
            ("driver", state.names.driver_id, "has a transaction open: a query that runs, or has just ended")
        )
    for left in state.open:
        fate = "decided, to be committed" if left.is_decided else "undecided, to be aborted"
        since = moment(left.started_at) or "unknown"
        producer = f"producer {left.prepared.producer_id}, epoch {left.prepared.epoch}"
        detail = f"{fate}; {producer}; since {since}, timeout {left.timeout_ms} ms"
        rows.append(("open", f"slot {left.slot}", detail))
    rows += [("lost", f"slot {slot}", "decided, and neither open nor committed") for slot in state.lost]
    rows += [
        (
            "blocked",
            f"{partition.topic}:{partition.partition}",
            f"by slots {_listed(slots)}; readers of committed records stop at {stable} of {end}",
        )
        for partition, (slots, stable, end) in held.items()
    ]
    if state.is_complete:
        rows.append(("complete", state.names.sink_id, "nothing is left to do"))
    return rows


def _as_json(state: SinkState, held: _Held) -> dict[str, Any]:
    last = state.last
    return {
        "sink": state.names.sink_id,
        "control_topic": state.names.control_topic,
        "complete": state.is_complete,
        "decision": None
        if last is None
        else {
            "query": last.query_id,
            "batch": last.batch_id,
            "tasks": last.tasks,
            "slots": [slot for slot, _ in last.transactions],
        },
        "markers": [
            {"slot": slot, "batch": marker.batch_id, "query": marker.query_id}
            for slot, marker in sorted(state.markers.items())
        ],
        "driver_is_open": state.driver_is_open,
        "open": [
            {
                "slot": left.slot,
                "id": left.prepared.transactional_id,
                "producer_id": left.prepared.producer_id,
                "epoch": left.prepared.epoch,
                "decided": left.is_decided,
                "started": moment(left.started_at),
                "timeout_ms": left.timeout_ms,
            }
            for left in state.open
        ],
        "lost": list(state.lost),
        "blocked": [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "slots": list(slots),
                "last_stable_offset": stable,
                "end": end,
            }
            for partition, (slots, stable, end) in held.items()
        ],
    }


def _listed(slots: Iterable[int]) -> str:
    return ", ".join(map(str, slots)) or "none"
