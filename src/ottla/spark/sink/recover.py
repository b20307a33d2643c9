"""recover(): what a query that is gone has left of its exactly-once writes, shown or ended without the query.

For programs; `ottla pipeline recover` is the same for people. Neither needs Spark. What is done stands in
`exactly_once.recovery`; here it gets a client, and names.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from ottla.spark.options.parsing import KAFKA_PREFIX, OptionError
from ottla.spark.sink.exactly_once.names import SinkNames
from ottla.spark.sink.exactly_once.recovery import (
    SinkState,
    abort_sink,
    finish_sink,
    forget_sink,
    sink_state,
)

if TYPE_CHECKING:
    from ottla.client.client import AsyncClient

RecoverAction: TypeAlias = Literal["show", "finish", "abort", "forget"]


RECOVERIES: Final[Mapping[RecoverAction, Callable[[AsyncClient, SinkNames], Awaitable[SinkState]]]] = {
    "show": sink_state,
    "finish": finish_sink,
    "abort": abort_sink,
    "forget": forget_sink,
}


def recover(
    options: Mapping[str, str], sink_id: str, action: RecoverAction = "show", *, control_topic: str = ""
) -> SinkState:
    """What there is of an exactly-once sink, after the action.

        kafka = {"kafka.bootstrap.servers": "localhost:9092"}
        state = ottla.spark.recover(kafka, "billing")
        if not state.is_complete:
            ottla.spark.recover(kafka, "billing", "finish")

    "show" changes nothing. "finish" commits what the query had decided, and aborts everything else that it has open.
    "abort" aborts what was not decided and leaves the rest. "forget" finishes, and then lets another query use the
    sink id. All but "show" shut a query out that still runs: it fails, and finds out at its next batch.

    `options` are those of the query; of these, what begins with `kafka.` counts. The sink id is the query's option
    `ottla.sink.id`, or its query id.
    """
    if action not in RECOVERIES:
        raise OptionError(f"recover: {action!r} is none of {', '.join(RECOVERIES)}")
    names = SinkNames(sink_id, control_topic)
    # Only now: this is imported with ottla.spark, and a mistake needs no client to be found.
    from ottla.client.blocking.client import Client
    from ottla.spark.options.client import sink_config

    kafka = {
        name.lower().removeprefix(KAFKA_PREFIX): value
        for name, value in options.items()
        if name.lower().startswith(KAFKA_PREFIX)
    }
    if "bootstrap.servers" not in kafka:
        raise OptionError("recover: the option 'kafka.bootstrap.servers' is missing; it is host:port")
    config = sink_config(kafka).replace(transactional_id=names.driver_id)
    with Client(config=config) as client:
        return client.run(lambda inner: RECOVERIES[action](inner, names))
