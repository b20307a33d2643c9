"""Who the producer is to the brokers: its id and epoch, and the sequence numbers that go with them (KIP-98, KIP-360).

`ProducerIds` requests an id when the first batch is to be sent, and another one when that is used up.
Epochs belong to partitions here: a broker compares the epoch of a batch with what it knows of that partition only,
so a partition that lost its place begins a new epoch with sequence 0 and no other one has to stop for it.

Invariant: the pair (epoch, sequence) of one id is never used for two batches of a partition that may both be stored.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from ottla.client.backoff import Backoff
from ottla.client.connections.brokers import Brokers
from ottla.client.tasks import Tasks
from ottla.errors import BrokerError, KafkaError, from_code
from ottla.runtime import Clock
from ottla.wire.messages import InitProducerIdRequest, InitProducerIdResponse

_logger = logging.getLogger("ottla.client.produce.producer")

_LARGEST_EPOCH: Final = (1 << 15) - 1
_NO_TRANSACTION_TIMEOUT: Final = 0x7FFFFFFF


class ProducerIdentity(NamedTuple):
    """An id that a broker gave out, and an epoch of it."""

    producer_id: int
    epoch: int

    def bumped(self) -> ProducerIdentity | None:
        """The next epoch; None if this was the last."""
        return self._replace(epoch=self.epoch + 1) if self.epoch < _LARGEST_EPOCH else None


NO_PRODUCER: Final = ProducerIdentity(-1, -1)
"""The identity of a producer without idempotence."""


class Identities(Protocol):
    """Who the producer is, for sinks: `ProducerIds`, or the transactions of a client with a transactional id."""

    last_error: BaseException | None
    """Why there is no identity yet."""
    transactional_id: str | None

    @property
    def most_version(self) -> int | None:
        """The highest version of Produce that may be used; None leaves it to the broker."""

    @property
    def stopped(self) -> BaseException | None:
        """What a batch ends with instead of being sent again, where nothing may be sent any more."""

    @property
    def may_forget(self) -> bool:
        """Whether the sequences of an idle partition may be forgotten."""

    def identity_for(self, topic: str, partition: int) -> ProducerIdentity | None:
        """Which a batch of this partition is sent with, if it is the partition's first; None: it has to wait."""

    def want(self, other_than: int | None = None) -> None:
        """A batch has to wait, also for one with another id than that."""

    def leave(self, used: ProducerIdentity | None, retired_id: int | None) -> None:
        """A partition is forgotten that `used` this, or may not use that id."""


class TransactionIdentities(Identities, Protocol):
    """Those of a transactional producer."""

    def check_open(self) -> None:
        """Raises unless a record can be produced now; in the thread that produces."""

    def delivered(self, now: float) -> None:
        """A batch is."""

    def on_closed(self, callback: Callable[[], object]) -> None:
        """Has it called, on the loop, whenever `check_open` has begun to raise."""


class ProducerTransactions(Protocol):
    """The transactions of a client, as its producer sees them."""

    @property
    def ids(self) -> TransactionIdentities: ...

    def on_records_failed(self, error: BaseException, is_sent: bool) -> None:
        """Records were given up, which were sent at least once or never."""


class ProducerIds:
    """The producer's id; `current`, which a partition begins with, is None until a broker has given one out.

    `on_loaded()` is called when there is one, `on_fatal(error)` when no broker will ever give one. What passes, such
    as a broker that is down, is retried with back-off for as long as a sink wants an id.
    """

    def __init__(
        self,
        brokers: Brokers,
        tasks: Tasks,
        clock: Clock,
        backoff: Backoff,
        on_loaded: Callable[[], None],
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self.current: ProducerIdentity | None = None
        self.last_error: BaseException | None = None
        self.transactional_id: str | None = None
        self.most_version: int | None = None
        self.stopped: BaseException | None = None
        self.may_forget = True
        self._brokers = brokers
        self._tasks = tasks
        self._clock = clock
        self._backoff = backoff
        self._on_loaded = on_loaded
        self._on_fatal = on_fatal
        self._is_loading = False

    def identity_for(self, topic: str, partition: int) -> ProducerIdentity | None:
        return self.current

    def want(self, other_than: int | None = None) -> None:
        """Requests an id, unless there is one or a request is pending; also where it is one that cannot be used."""
        if self.current is not None and self.current.producer_id == other_than:
            self.current = None
        if self.current is None and not self._is_loading:
            self._is_loading = True
            self._tasks.spawn(self._load(), "load the producer id")

    def leave(self, used: ProducerIdentity | None, retired_id: int | None) -> None:
        """A partition is forgotten that `used` this, or may not use that id: `current` is new to it afterwards."""
        if self.current is None:
            return
        if self.current.producer_id == retired_id:
            self.current = None
        elif used is not None and used.producer_id == self.current.producer_id and used >= self.current:
            self.current = used.bumped()

    async def _load(self) -> None:
        attempt = 0
        try:
            while self.current is None:
                try:
                    self.current = await self._request()
                except BrokerError as error:
                    if not error.retriable:
                        _logger.error("no broker gives out a producer id: %s", error)
                        self._on_fatal(error)
                        return
                    self.last_error = error
                except KafkaError as error:
                    self.last_error = error
                if self.current is None:
                    _logger.info("no producer id yet, trying again: %s", self.last_error)
                    await self._clock.sleep(self._backoff.delay(attempt))
                    attempt += 1
        finally:
            self._is_loading = False
        self.last_error = None
        self._on_loaded()

    async def _request(self) -> ProducerIdentity:
        request = InitProducerIdRequest(
            transactional_id=None,
            transaction_timeout_ms=_NO_TRANSACTION_TIMEOUT,
            producer_id=NO_PRODUCER.producer_id,
            producer_epoch=NO_PRODUCER.epoch,
        )
        # One broker per attempt: the next one has its turn after the back-off.
        broker = self._brokers.candidates()[0]
        response = await broker.request(request)
        assert isinstance(response, InitProducerIdResponse)
        error = from_code(response.error_code, broker=broker.node_id)
        if error is not None:
            raise error
        return ProducerIdentity(response.producer_id, response.producer_epoch)
