"""Faults on demand: rules that say which requests go wrong, how, and how often.

    fault = cluster.faults.add(api="Produce", topic="orders", when="after_append", action=drop, count=1)
    ...
    await fault.wait()          # until it has struck
    assert fault.hits == 1

Dispatch looks for a rule before a handler runs (`before_append`), after it has done its work (`after_append`), and
when its response is about to leave (`response`). Rules are tried in the order in which they were added, and a request
meets at most one of them at each of these moments. They strike the requests of clients, not those of nodes to the
controller. Nothing here waits or knows a socket.

Which partitions a request is about, and where its response has an error code for each, is found by the handful of
words that Kafka's messages use for a topic and for a partition, whatever the API.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ottla.errors import ERRORS, BrokerError, from_code
from ottla.wire import Uuid, WireStruct, api_named

if TYPE_CHECKING:
    from ottla.broker.replication.partition import PartitionKey

STAGES: Final = ("before_append", "after_append", "response")
_CODES: Final = 1 << 15
NO_PARTITION: Final = -1
"""Of a topic that a message names without saying which of its partitions."""

TopicName = Callable[[Uuid], str | None]
"""The name of a topic by its id, if there is one."""

_TOPIC_LISTS: Final = ("topics", "topic_data", "responses", "data")
_PARTITION_LISTS: Final = ("partitions", "partition_data", "partition_responses", "partition_indexes")
_TOPIC_NAMES: Final = ("name", "topic", "topic_name")
_PARTITION_NUMBERS: Final = ("partition_index", "partition", "index")


@dataclass(frozen=True)
class Action:
    """What happens to a request: one of `drop`, `never`, `delay(seconds)` and `error(code)`."""

    kind: str
    seconds: float = 0.0
    code: int = 0

    def __str__(self) -> str:
        details = {"delay": f"({self.seconds:g})", "error": f"({self.code})"}
        return self.kind + details.get(self.kind, "")

    def as_error(self) -> BrokerError:
        error = from_code(self.code)
        assert error is not None, "0 is no error"
        return error


drop: Final = Action("drop")
"""The connection is closed, as when a broker dies."""

never: Final = Action("never")
"""There is never a response; its connection stays open and serves nothing else."""


def delay(seconds: float) -> Action:
    """The request, or its response, waits by the cluster's clock."""
    if not 0 <= seconds < math.inf:
        raise ValueError(f"delay({seconds}): 0 seconds or more are meant; `never` waits for ever")
    return Action("delay", seconds=seconds)


def error(which: int | str | type[BrokerError]) -> Action:
    """An error code, by number, by Kafka's name or by its class: `error("NOT_LEADER_OR_FOLLOWER")`."""
    if isinstance(which, str):
        codes = [code for code, known in ERRORS.items() if known.name == which]
        if not codes:
            raise ValueError(f"Kafka has no error {which!r}; its names are like NOT_LEADER_OR_FOLLOWER")
        return Action("error", code=codes[0])
    code = getattr(which, "code", which)
    if not isinstance(code, int) or not -_CODES <= code < _CODES:
        raise ValueError(f"error({which!r}): a code of 16 bits, Kafka's name for it or its class is meant")
    if code == 0:
        raise ValueError("error(0): 0 says that there is none")
    return Action("error", code=code)


@dataclass(eq=False)
class Fault:
    """One rule. Fields that are None match anything."""

    api: str | None
    node: int | None
    topic: str | None
    partition: int | None
    client_id: str | None
    when: str
    action: Action
    count: int | None
    hits: int = 0
    """How many requests it has struck."""
    _waiters: list[tuple[int, asyncio.Future[None]]] = field(default_factory=list, repr=False)

    def __str__(self) -> str:
        fields = ("api", "node", "topic", "partition", "client_id", "when", "action", "count")
        given = ((name, getattr(self, name)) for name in fields)
        return f"Fault({', '.join(f'{name}={value}' for name, value in given if value is not None)})"

    @property
    def is_spent(self) -> bool:
        return self.count is not None and self.hits >= self.count

    def partitions(self, touched: Iterable[PartitionKey]) -> list[PartitionKey]:
        """Those of the request's partitions that the rule is about."""
        return [
            (topic, partition)
            for topic, partition in touched
            if self.topic in (None, topic) and self.partition in (None, partition)
        ]

    @property
    def is_about_partitions(self) -> bool:
        return self.topic is not None or self.partition is not None

    def strike(self) -> None:
        self.hits += 1
        for needed, waiter in self._waiters:
            if self.hits >= needed and not waiter.done():
                waiter.set_result(None)
        self._waiters = [(needed, waiter) for needed, waiter in self._waiters if not waiter.done()]

    async def wait(self, hits: int = 1) -> None:
        """Returns when the rule has struck that often."""
        if self.count is not None and hits > self.count:
            raise ValueError(f"{self} strikes {self.count} times, never {hits}")
        if self.hits < hits:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append((hits, waiter))
            await waiter


class Faults:
    """The rules of a cluster."""

    def __init__(self) -> None:
        self.rules: list[Fault] = []

    def add(
        self,
        api: str | None = None,
        *,
        node: int | None = None,
        topic: str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
        when: str = "before_append",
        action: Action = drop,
        count: int | None = None,
    ) -> Fault:
        """A new rule, behind those there are. `count` is how often it strikes; without it, always."""
        if api is not None:
            api_named(api)
        if when not in STAGES:
            raise ValueError(f"when={when!r}: it is one of {', '.join(STAGES)}")
        if not isinstance(action, Action):
            raise TypeError(f"action={action!r}: it is drop, never, delay(seconds) or error(code)")
        for name, value, kind in (
            ("node", node, int),
            ("topic", topic, str),
            ("partition", partition, int),
            ("client_id", client_id, str),
            ("count", count, int),
        ):
            if value is not None and not isinstance(value, kind):
                raise TypeError(f"{name}={value!r}: it is a {kind.__name__}, or left out")
        if count is not None and count < 1:
            raise ValueError(f"count={count}: a rule that strikes less than once does nothing")
        fault = Fault(api, node, topic, partition, client_id, when, action, count)
        self.rules.append(fault)
        return fault

    def remove(self, fault: Fault) -> None:
        """Takes a rule away; one that is gone already is no error."""
        if fault in self.rules:
            self.rules.remove(fault)

    def clear(self) -> None:
        self.rules.clear()

    def strike(
        self, when: str, api: str, node: int, client_id: str | None, touched: list[PartitionKey]
    ) -> tuple[Fault, list[PartitionKey]] | None:
        """The first rule for this moment of this request, with the partitions it is about, or None."""
        for fault in self.rules:
            if fault.when != when or fault.is_spent or fault.api not in (None, api):
                continue
            if fault.node not in (None, node) or fault.client_id not in (None, client_id):
                continue
            partitions = fault.partitions(touched)
            if fault.is_about_partitions and not partitions:
                continue
            fault.strike()
            return fault, partitions
        return None


def addressed(message: Any, topic_name: TopicName) -> Iterator[tuple[str, int, WireStruct | None]]:
    """(topic, partition, the structure that stands for it in the message) for each of them."""
    for topic in _elements(message, _TOPIC_LISTS):
        name = topic if isinstance(topic, str) else _name(topic, topic_name)
        if name is None:
            continue
        partitions = _elements(topic, _PARTITION_LISTS)
        if not partitions:
            yield name, NO_PARTITION, topic if isinstance(topic, WireStruct) else None
        for partition in partitions:
            if isinstance(partition, int):
                yield name, partition, None
            else:
                yield name, _first(partition, _PARTITION_NUMBERS), partition


def set_error(message: Any, partitions: list[tuple[str, int]], code: int, topic_name: TopicName) -> None:
    """Gives these partitions of a response an error code; a whole response, where it names none."""
    patched = False
    for topic, partition, struct in addressed(message, topic_name):
        if (topic, partition) in partitions and struct is not None and "error_code" in struct.FIELDS:
            struct.error_code = code  # type: ignore[attr-defined]
            patched = True
    if not patched and "error_code" in message.FIELDS:
        message.error_code = code


def _elements(holder: Any, names: tuple[str, ...]) -> list[Any]:
    found = _first(holder, names)
    return found if isinstance(found, list) else []


def _name(topic: Any, topic_name: TopicName) -> str | None:
    name = _first(topic, _TOPIC_NAMES)
    if name:
        return str(name)
    topic_id = getattr(topic, "topic_id", None)
    return topic_name(topic_id) if topic_id is not None else None


def _first(holder: Any, names: tuple[str, ...]) -> Any:
    return next((getattr(holder, name) for name in names if hasattr(holder, name)), None)
