"""What the driver requests from Kafka: partitions, their first and last offsets, offsets by time.

Nothing is decided here about a query, and no records are read. Between any two requests topics may be created and
deleted: a response that does not fit to what is known is requested again, as often as fetchOffset.numRetries says.
All of it, with what the client itself tries again, takes no longer than one call may (kafka.default.api.timeout.ms).

Invariant: what is returned comes from a response, for every partition in it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from ottla.client.consume.offset_spec import Timestamp
from ottla.client.topic_partition import TopicPartition
from ottla.errors import ApiTimeoutError, KafkaError, RetriableError
from ottla.spark.options.client import source_config
from ottla.spark.options.connector import SourceOptions
from ottla.spark.options.offsets import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    Earliest,
    GlobalTimestamp,
    Latest,
    OffsetOption,
    SpecificOffsets,
    SpecificTimestamps,
)
from ottla.spark.options.parsing import OptionError
from ottla.spark.process import clients
from ottla.spark.source.checkpoint import PartitionOffsets
from ottla.spark.source.data_loss import names
from ottla.spark.source.partition_discovery import Discovered, discover

if TYPE_CHECKING:
    from ottla.client.blocking.client import Client
    from ottla.config import ClientConfig

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

Isolation = Literal["read_uncommitted", "read_committed"]

_DISCOVERY_AGE: Final = 0.5
"""Seconds for which a stream does not request its partitions again; its offsets it requests every time."""

_MAY_PASS: Final = (RetriableError, ConnectionError, TimeoutError)

_MARKS: Final[Mapping[int, str]] = {LATEST_OFFSET: "latest", EARLIEST_OFFSET: "earliest"}
"""What an option may have instead of an offset."""


class OffsetReader:
    """Requests the partitions and offsets of one query, through this process's client."""

    def __init__(
        self,
        options: SourceOptions,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._options = options
        self._clock = clock
        self._sleep = sleep
        self._config: ClientConfig | None = None
        self._discovered: tuple[float, Discovered] | None = None
        self._until = 0.0
        """When the responses of the current call have to be there."""

    # What there is

    def earliest(self, partitions: Collection[TopicPartition]) -> PartitionOffsets:
        """The first offset of each of them that exists."""

        def request() -> PartitionOffsets:
            there = self._discover().partitions
            return self._listed(dict.fromkeys(there.intersection(partitions), "earliest"))

        return self._retried(request) if partitions else {}

    def latest(self, known: Mapping[TopicPartition, int]) -> PartitionOffsets:
        """Where each partition of the query ends, for one that has come to the `known` offsets.

        A partition that is gone, or ends before what is known, is requested again: the response of a broker that has
        fallen behind must not pass for the truth. The last response counts. A partition that a restarted query does
        not cover any more is not waited for.
        """
        covers = self._options.topics.covers
        for _ in range(self._attempts - 1):
            found = self._latest(known)
            wrong = [tp for tp, offset in known.items() if found.get(tp, -1) < offset and covers(tp)]
            if not wrong:
                return found
            _log.warning("partitions are gone, or end before what was read of them: %s", names(wrong))
            self._pause()
        return self._latest(known)

    def start(self) -> PartitionOffsets:
        """Where the query begins, by its options."""
        return self._retried(
            lambda: self._resolve(self._options.start, self._discover().all_there(), "starting")
        )

    def start_and_end(self) -> tuple[PartitionOffsets, PartitionOffsets]:
        """Where a batch query begins and ends: for the same partitions."""

        def request() -> tuple[PartitionOffsets, PartitionOffsets]:
            there = self._discover().all_there()
            # In this order, so that "latest" twice is never an end before a start.
            start = self._resolve(self._options.start, there, "starting")
            return start, self._resolve(self._options.end, there, "ending")

        return self._retried(request)

    def close(self) -> None:
        """Ends the client of this process; the next request would make a new one."""
        if self._config is not None:
            clients.discard(self._config)

    # From options to offsets

    def _resolve(
        self, option: OffsetOption, there: frozenset[TopicPartition], side: Literal["starting", "ending"]
    ) -> PartitionOffsets:
        match option:
            case Earliest():
                return self._listed(dict.fromkeys(there, "earliest"))
            case Latest():
                return self._listed(dict.fromkeys(there, "latest"))
            case SpecificOffsets(by_partition):
                _check_named(f"{side}Offsets", by_partition, there, " (-1 is latest, -2 is earliest)")
                marked = {tp: _MARKS[offset] for tp, offset in by_partition.items() if offset in _MARKS}
                return {**by_partition, **self._listed(marked)}
            case GlobalTimestamp(ms):
                return self._by_time(dict.fromkeys(there, ms), side)
            case SpecificTimestamps(by_partition):
                _check_named(f"{side}OffsetsByTimestamp", by_partition, there)
                return self._by_time(by_partition, side)

    def _by_time(
        self, times: Mapping[TopicPartition, int], side: Literal["starting", "ending"]
    ) -> PartitionOffsets:
        """Where there is no record as young: the end; for a start only if the options say so."""
        found = self._requested(times)
        late = [tp for tp, offset in found.items() if offset is None]
        if late and side == "starting" and self._options.by_timestamp_strategy == "error":
            tp = min(late)
            raise OptionError(
                f"No offset matched from request of topic-partition {tp} and timestamp {times[tp]}: its records are"
                " all older. Give an earlier time, or set startingOffsetsByTimestampStrategy to latest to begin at"
                " the end of such partitions"
            )
        ends = self._listed(dict.fromkeys(late, "latest"))
        return {tp: ends[tp] if offset is None else offset for tp, offset in found.items()}

    # Requests

    def _latest(self, known: Mapping[TopicPartition, int]) -> PartitionOffsets:
        return self._retried(lambda: self._listed(dict.fromkeys(self._for_stream(known), "latest")))

    def _for_stream(self, known: Mapping[TopicPartition, int]) -> frozenset[TopicPartition]:
        """The partitions there are. A missing topic is for the plan of the batch to report, if it was known."""
        found = self._discover(_DISCOVERY_AGE)
        if self._options.fail_on_data_loss and not found.missing <= {topic for topic, _ in known}:
            found.all_there()
        return found.partitions

    def _discover(self, max_age: float = 0.0) -> Discovered:
        now = self._clock()
        if self._discovered is None or now - self._discovered[0] >= max_age:
            self._discovered = now, discover(self.client(), self._options.topics, self._left())
        return self._discovered[1]

    def _listed(self, at: Mapping[TopicPartition, str]) -> PartitionOffsets:
        """Offsets by name, which every partition has."""
        return {tp: offset for tp, offset in self._requested(at).items() if offset is not None}

    def _requested(self, at: Mapping[TopicPartition, str | int]) -> dict[TopicPartition, int | None]:
        if not at:
            return {}
        moments = {tp: Timestamp(each) if isinstance(each, int) else each for tp, each in at.items()}
        found = self.client().admin.list_offsets(moments, isolation=self._isolation(), timeout=self._left())
        return {tp: listed.offset for tp, listed in found.items()}

    def client(self) -> Client:
        """The client of this process, which is to be closed by `close` only."""
        if self._config is None:
            self._config = source_config(self._options.kafka)
        return clients.client(self._config)

    def _isolation(self) -> Isolation:
        level = self._options.kafka.get("isolation.level", "").lower()
        return "read_committed" if level == "read_committed" else "read_uncommitted"

    # Trying again

    @property
    def _attempts(self) -> int:
        return max(self._options.fetch_offset_retries, 1)

    def _pause(self) -> None:
        self._discovered = None
        self._sleep(self._options.fetch_offset_retry_interval)

    def _left(self) -> float:
        left = self._until - self._clock()
        if left <= 0:
            raise ApiTimeoutError(
                f"getting Kafka's offsets took longer than {self._api_timeout():g} s; kafka.default.api.timeout.ms"
                " gives it more time"
            )
        return left

    def _api_timeout(self) -> float:
        return self.client().config.default_api_timeout_ms / 1000

    def _retried(self, request: Callable[[], _T]) -> _T:
        self._until = self._clock() + self._api_timeout()
        for attempt in range(1, self._attempts + 1):
            try:
                return request()
            except KafkaError as error:
                # After a timeout of a whole call there is no time left: it has been tried again all along.
                passes = isinstance(error, _MAY_PASS) and not isinstance(error, ApiTimeoutError)
                if attempt == self._attempts or not passes:
                    error.add_note(self._circumstances(attempt))
                    raise
                _log.warning("attempt %d of getting Kafka's offsets failed: %s", attempt, error)
            self._pause()
        raise AssertionError("the last attempt returns or raises")

    def _circumstances(self, attempts: int) -> str:
        servers = self._options.kafka.get("bootstrap.servers")
        return (
            f"this was attempt {attempts} of getting offsets from kafka.bootstrap.servers={servers}; the options"
            " fetchOffset.numRetries and fetchOffset.retryIntervalMs say how many there are, and how far apart"
        )


def _check_named(
    option: str, given: Mapping[TopicPartition, int], there: frozenset[TopicPartition], hint: str = ""
) -> None:
    if given.keys() != there:
        raise OptionError(
            f"Partitions specified for {option} don't match what are assigned: it has to name every partition that"
            f" is read, and no other{hint}. Specified: {names(given)}. Assigned: {names(there)}. Partitions may have"
            " been created or deleted in the meantime"
        )
