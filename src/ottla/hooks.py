"""Hooks and interceptors: how a program watches what a client does, and how it takes part.

    class Slow(ottla.hooks.Hook):
        def on_broker_read(self, node_id, api_key, size, seconds, error):
            if seconds > 1:
                print(f"broker {node_id} took {seconds:.1f} s")

    ottla.AsyncClient("localhost:9092", hooks=[Slow()])

A hook is notified; an interceptor may change what passes. `Hook` has every hook with its arguments: a class overrides
those that it wants, and any other object with methods of these names will do. `Hooks` is what the client holds: for
each name None where there is no hook, so that the places which notify pay for one attribute, else one callable that
notifies all. What the hooks are handed is defined here as well; it comes from layers above, so the types of those are
protocols.

Not here: what is made of it (client/metrics, client/observers).

Invariant: whatever a hook raises is logged and stays here; what is to end the program (SystemExit, KeyboardInterrupt)
goes to the thread that runs the loop, when the client is done with what it is doing. Hooks are called in the order in
which they were given, on the client's loop; only `on_record_buffered` and `on_fetch_taken` are called by the thread
that produces or reads.
"""

from __future__ import annotations

import asyncio
import difflib
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, NoReturn, Protocol, TypeAlias, TypeVar

__all__ = [
    "Acknowledgement",
    "ClusterState",
    "ConsumerInterceptor",
    "FetchedPartition",
    "Hook",
    "Hooks",
    "ProducedBatch",
    "ProducerInterceptor",
    "ProducerRecord",
    "overrides",
]

logger = logging.getLogger(__name__)

_Table = TypeVar("_Table")

Partitions: TypeAlias = Sequence[tuple[str, int]]
"""By topic and number."""
Offsets: TypeAlias = Mapping[tuple[str, int], int]
"""By topic and number: the offset of the next record to process."""


class Acknowledgement(Protocol):
    """What became of a record: the handle that producing it returned."""

    @property
    def topic(self) -> str | None: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int | None: ...
    @property
    def timestamp(self) -> int | None: ...
    @property
    def error(self) -> BaseException | None: ...
    def done(self) -> bool: ...


class ClusterState(Protocol):
    """The cluster as metadata describes it."""

    @property
    def cluster_id(self) -> str | None: ...
    @property
    def controller_id(self) -> int: ...
    @property
    def brokers(self) -> Mapping[int, Any]: ...
    @property
    def topics(self) -> Mapping[str, Any]: ...


class ProducedBatch(NamedTuple):
    """One batch on its way to its partition. Times are of the client's monotonic clock, None until they have come."""

    node_id: int
    """The leader it goes to; -1 before it was first written."""
    topic: str
    partition: int
    records: int
    bytes: int
    """With the batch's header, before compression."""
    compressed_bytes: int
    """What is sent."""
    opened_at: float
    """When its first record was appended."""
    sealed_at: float | None = None
    written_at: float | None = None
    """When it was last handed to a connection."""
    acknowledged_at: float | None = None
    """When the broker's response came, or the batch was given up."""
    attempts: int = 1
    """How often it has been written."""


class FetchedPartition(NamedTuple):
    """What one fetch response brought of one partition."""

    node_id: int
    topic: str
    partition: int
    records: int
    """As the headers of its batches count them: control records and those before the position are among them."""
    bytes: int
    high_watermark: int
    read_at: float
    """When the response came, by the client's monotonic clock."""
    taken_at: float | None = None
    """When the reader got it."""


class Hook:
    """Every hook there is. Override those that matter: one that is not overridden costs nothing.

    They must not wait: the client does nothing else in the meantime. `seconds` are durations; an `error` of None
    means that it went well.
    """

    def on_broker_connect(
        self, node_id: int, host: str, port: int, seconds: float, error: BaseException | None
    ) -> None:
        """An attempt to connect has ended. Bootstrap servers have negative ids."""

    def on_broker_disconnect(self, node_id: int, peer: str, error: BaseException | None) -> None:
        """A connection is gone; without an error it was closed by the client itself."""

    def on_broker_write(self, node_id: int, api_key: int, size: int, error: BaseException | None) -> None:
        """A request of `size` bytes was handed to the connection."""

    def on_broker_read(
        self, node_id: int, api_key: int, size: int, seconds: float, error: BaseException | None
    ) -> None:
        """A response of `size` bytes is there, so many seconds after its request was written, or will not come."""

    def on_broker_throttle(self, node_id: int, seconds: float) -> None:
        """A broker throttles the client for so many seconds: it is over a quota."""

    def on_metadata(self, view: ClusterState, seconds: float, error: BaseException | None) -> None:
        """A request for metadata has ended; after an error `view` is the one that was known before."""

    def on_record_buffered(self, delivery: Acknowledgement) -> None:
        """A record was appended to a batch. Called for each record, by the thread that produces it."""

    def on_batch_sealed(self, batch: ProducedBatch) -> None:
        """A batch is complete: nothing is appended to it any more."""

    def on_batch_written(self, batch: ProducedBatch) -> None:
        """A batch was handed to a connection; again, with more `attempts`, when it is retried."""

    def on_batch_acknowledged(self, batch: ProducedBatch) -> None:
        """The broker has stored a batch; with acks=0, it was written."""

    def on_batch_failed(self, batch: ProducedBatch, error: BaseException) -> None:
        """A batch was given up; its records have this error."""

    def on_fetch_read(self, fetched: FetchedPartition) -> None:
        """A fetch response brought something of a partition."""

    def on_fetch_taken(self, fetched: FetchedPartition) -> None:
        """The reader has got it. Called by the thread that reads."""

    def on_session_started(self) -> None:
        """A consumer begins to fetch."""

    def on_session_stopped(self) -> None:
        """A consumer has stopped fetching: it is closed, or what it reads changes."""

    def on_position_reset(self, topic: str, partition: int, old: int, new: int, reason: str) -> None:
        """A consumer goes on elsewhere than at its position, which was gone or had never existed."""

    def on_partitions_assigned(self, group: str, partitions: Partitions) -> None:
        """A group has given these to a consumer, as topic and number: before the program's callback."""

    def on_partitions_revoked(self, group: str, partitions: Partitions, lost: bool) -> None:
        """A group has taken these from a consumer: after the program's callback."""

    def on_offsets_committed(
        self, group: str, offsets: Offsets, seconds: float, error: BaseException | None
    ) -> None:
        """A commit has ended; with an error, these offsets may be committed or not."""

    def on_client_closed(self) -> None:
        """The client is closed: the last call."""


HOOK_NAMES: Final = tuple(name for name in vars(Hook) if name.startswith("on_"))


class Hooks:
    """The hooks of one client: an attribute per name, None or a callable that notifies all.

    >>> hooks = Hooks([])
    >>> hooks.on_client_closed is None
    True
    """

    __slots__ = HOOK_NAMES

    on_broker_connect: Callable[[int, str, int, float, BaseException | None], None] | None
    on_broker_disconnect: Callable[[int, str, BaseException | None], None] | None
    on_broker_write: Callable[[int, int, int, BaseException | None], None] | None
    on_broker_read: Callable[[int, int, int, float, BaseException | None], None] | None
    on_broker_throttle: Callable[[int, float], None] | None
    on_metadata: Callable[[ClusterState, float, BaseException | None], None] | None
    on_record_buffered: Callable[[Acknowledgement], None] | None
    on_batch_sealed: Callable[[ProducedBatch], None] | None
    on_batch_written: Callable[[ProducedBatch], None] | None
    on_batch_acknowledged: Callable[[ProducedBatch], None] | None
    on_batch_failed: Callable[[ProducedBatch, BaseException], None] | None
    on_fetch_read: Callable[[FetchedPartition], None] | None
    on_fetch_taken: Callable[[FetchedPartition], None] | None
    on_session_started: Callable[[], None] | None
    on_session_stopped: Callable[[], None] | None
    on_position_reset: Callable[[str, int, int, int, str], None] | None
    on_partitions_assigned: Callable[[str, Partitions], None] | None
    on_partitions_revoked: Callable[[str, Partitions, bool], None] | None
    on_offsets_committed: Callable[[str, Offsets, float, BaseException | None], None] | None
    on_client_closed: Callable[[], None] | None

    def __init__(self, listeners: Iterable[object] = (), own: Hook | None = None) -> None:
        """A TypeError for an object that could never be notified of anything: it is a mistake.

        `own` is the client's and comes first. It raises nothing, so that where it is alone its method is called as it
        is: a request that no program watches pays for no protection.
        """
        given = list(listeners)
        for listener in given:
            _check_listener(listener)
        for name in HOOK_NAMES:
            hooks = [getattr(listener, name) for listener in given if overrides(listener, Hook, name)]
            first = getattr(own, name) if own is not None and overrides(own, Hook, name) else None
            setattr(self, name, _notifier(name, first, hooks) if hooks else first)


def overrides(each: object, base: type, name: str) -> bool:
    """Whether `each` has a method of this name other than the one that `base` has for classes without it."""
    own = getattr(type(each), name, getattr(each, name, None))
    return own is not None and own is not getattr(base, name, None)


def _check_listener(listener: object) -> None:
    kind = type(listener).__name__
    if isinstance(listener, type):
        raise TypeError(
            f"hooks take objects, not classes: {listener.__name__}() instead of {listener.__name__}"
        )
    named = [name for name in dir(listener) if name.startswith("on_") and callable(getattr(listener, name))]
    for name in named:
        if name not in _KNOWN_NAMES and isinstance(listener, Hook):
            near = difflib.get_close_matches(name, HOOK_NAMES, n=1)
            raise TypeError(f"{kind}.{name} is no hook" + (f": did you mean {near[0]}?" if near else ""))
        if name in HOOK_NAMES and inspect.iscoroutinefunction(getattr(listener, name)):
            raise TypeError(f"{kind}.{name} is a coroutine function: hooks are called, not awaited")
    if not isinstance(listener, Hook) and not any(name in HOOK_NAMES for name in named):
        raise TypeError(f"{kind} has no hook: it needs a method of one of the names in ottla.hooks.Hook")


def _notifier(
    name: str, first: Callable[..., object] | None, hooks: Sequence[Callable[..., object]]
) -> Callable[..., None]:
    def notify(*args: object) -> None:
        if first is not None:
            first(*args)
        for hook in hooks:
            try:
                hook(*args)
            except (SystemExit, KeyboardInterrupt) as error:
                raise_outside(error)
            except BaseException:
                logger.exception("the hook %s of %r failed; the client goes on", name, hook)

    return notify


def raise_outside(error: BaseException) -> None:
    """What a user's code raises to end the program, in the middle of what the client does.

    The loop that runs raises it between two of its callbacks; where none runs, the caller gets it.
    """
    loop = asyncio._get_running_loop()
    if loop is None:
        raise error
    loop.call_soon(_raise, error)


def _raise(error: BaseException) -> NoReturn:
    raise error


@dataclass(slots=True)
class ProducerRecord:
    """A record before it is serialized; an interceptor may change it or return another."""

    topic: str
    value: Any
    key: Any = None
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)
    partition: int | None = None
    timestamp: int | None = None


class ProducerInterceptor:
    """Takes part in producing: may change every record, and is called with what became of it.

    A class that overrides `on_send` alone makes `produce_batch` go row by row, which is slow and warned about once:
    override `on_send_batch` as well. What `on_send` and `on_send_batch` raise is logged, and the record goes on as it
    was.
    """

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """A record before it is serialized and its partition chosen, in the thread that produces."""
        return record

    def on_send_batch(self, topic: str, table: _Table) -> _Table:
        """A table that is produced as one, in the thread that produces; of several, each."""
        return table

    def on_acknowledgement(self, delivery: Acknowledgement) -> None:
        """What became of a record; on the client's loop, and it must not wait."""


class ConsumerInterceptor:
    """Takes part in consuming: may change or drop the records that a reader is about to get."""

    def on_consume(self, records: list[Any]) -> list[Any]:
        """Some records of one partition, keys and values deserialized, in the thread that reads."""
        return records


# What an object may be called for: one class can be both, a hook and an interceptor.
_KNOWN_NAMES: Final = frozenset((*HOOK_NAMES, *vars(ProducerInterceptor), *vars(ConsumerInterceptor)))
