"""`AsyncClient`: the client for asyncio. One object produces, consumes and administers.

It checks options and passes calls on to the services of its core (core.py), which is made with the first use on a
running loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypedDict, TypeVar, Unpack, overload
from weakref import finalize

from ottla.client.arguments import check_interceptors, check_no_group, config_of, listed, partitioner_of
from ottla.client.blocking.forks import forked_error, on_fork
from ottla.client.core import ClientCore
from ottla.client.deadline import check_timeout, within
from ottla.client.home_loop import CallingThreads, check_there_is_a_loop
from ottla.client.metrics import MetricsSnapshot
from ottla.client.partitioners import Partitioner
from ottla.client.partitioners.function import PartitionFunction
from ottla.client.produce.batch_delivery import BatchDelivery
from ottla.client.produce.producer import Producer
from ottla.client.produce.producer_id import ProducerIdentity
from ottla.client.produce.record_path import NoRoom
from ottla.client.requests.requests import Shard
from ottla.config import ClientConfig, ClientOptions
from ottla.errors import BufferFullError, ClientClosedError, ConfigurationError, KafkaError
from ottla.hooks import ConsumerInterceptor, Hooks, ProducerInterceptor
from ottla.runtime import Runtime, SystemRuntime, this_thread
from ottla.serde import resolve_deserializer, resolve_serializer
from ottla.wire import Message
from ottla.wire.records import Delivery

if TYPE_CHECKING:
    from ottla.client.admin import AsyncAdmin
    from ottla.client.consume.consumer import AsyncConsumer, OnError
    from ottla.client.consume.iterators import AsyncBatchReader
    from ottla.client.consume.offset_spec import Start, Stops
    from ottla.client.consume.subscription import Subscribed
    from ottla.client.group.callbacks import OnPartitions
    from ottla.client.group.consumer import AsyncGroupConsumer
    from ottla.client.transactions.machine import TransactionState
    from ottla.client.transactions.manager import TransactionManager
    from ottla.client.transactions.prepared import PreparedTransaction
    from ottla.client.transactions.session import AsyncTransactSession
    from ottla.client.transactions.transaction import AsyncTransaction, AsyncTransactionBlock

_T = TypeVar("_T")

_logger = logging.getLogger("ottla.client")

CLOSE_TIMEOUT: Final = 30.0
"""How long closing waits for pending records, unless it is given another timeout."""

HeadersIn: TypeAlias = Sequence[tuple[str, bytes | None]] | dict[str, bytes | None]


class ConsumeOptions(TypedDict, total=False):
    """What `consume` takes beside topics and group."""

    start: Start | None
    stop: Stops | None
    key_deserializer: Any
    value_deserializer: Any
    on_error: OnError
    group_instance_id: str | None
    on_assigned: OnPartitions | None
    on_revoked: OnPartitions | None
    on_lost: OnPartitions | None


class AsyncClient:
    """A client of a Kafka cluster, on the loop that it is first used on.

        async with ottla.AsyncClient("localhost:9092") as kafka:
            await kafka.produce("orders", b"...", key=b"42")
            async for record in kafka.consume("orders", start="earliest"):
                print(record.offset, record.value)

    Options are those of `ClientConfig`, by keyword, or a whole `config`. Serializers are names ("str", "json", ...),
    callables or objects of `ottla.serde`; `hooks` see what happens, `interceptors` may change it (ottla.hooks).
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        config: ClientConfig | None = None,
        partitioner: str | Partitioner | PartitionFunction = "default",
        key_serializer: Any = "bytes",
        value_serializer: Any = "bytes",
        key_deserializer: Any = "bytes",
        value_deserializer: Any = "bytes",
        hooks: Iterable[object] = (),
        interceptors: Iterable[ProducerInterceptor | ConsumerInterceptor] = (),
        runtime: Runtime | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        self.config = config_of(bootstrap_servers, config, options)
        self._runtime = runtime or SystemRuntime()
        self._partitioner = partitioner_of(partitioner, self.config)
        self._key_serializer = resolve_serializer(key_serializer, "key")
        self._value_serializer = resolve_serializer(value_serializer, "value")
        self._key_deserializer = key_deserializer
        self._value_deserializer = value_deserializer
        resolve_deserializer(key_deserializer, "key")
        resolve_deserializer(value_deserializer, "value")
        self._hooks = listed("hooks", hooks)
        Hooks(self._hooks)  # a mistake in them is the caller's, here
        self._interceptors = listed("interceptors", interceptors)
        check_interceptors(self._interceptors)
        self._core: ClientCore | None = None
        self._ended: KafkaError | None = None
        self._closing: asyncio.Future[None] | None = None
        self._finalizer: finalize[[Producer], AsyncClient] | None = None
        # Set by a blocking client, before the first use.
        self._threads: CallingThreads | None = None
        on_fork(self)

    async def __aenter__(self) -> Self:
        self._running()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
            return
        # What made the block end is what the user is to see.
        try:
            await self.close()
        except KafkaError as also:
            error.add_note(f"closing the client failed too: {also}")

    # Producing

    async def produce(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: HeadersIn | None = None,
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> Delivery:
        """Hands a record over to be sent; awaits only where the buffer is full, for at most `max_block_ms`.

        What comes back is the receipt: await it for the record to be delivered, give it a callback, or leave it, and
        let `flush` raise what failed.

            delivery = await kafka.produce("orders", b"...", key=b"42", headers=[("trace", b"1")])
            print((await delivery).offset)
        """
        core = self._core
        # What can be seen quickly; before Python 3.12, to get the running loop is a system call.
        if core is None or core.home.thread != this_thread() or not core.home.loop.is_running():
            core = self._running()
        try:
            return core.producer.produce(topic, value, key, headers, partition, timestamp)
        except NoRoom as full:
            return await self._when_there_is_room(full)

    async def _produce_raw(
        self, topic: str, value: bytes | None, key: bytes | None, headers: Sequence[tuple[str, bytes | None]]
    ) -> Delivery:
        try:
            return self._running().producer.produce_raw(topic, value, key, headers)
        except NoRoom as full:
            return await self._when_there_is_room(full)

    async def _when_there_is_room(self, full: NoRoom) -> Delivery:
        """Tries again each time that memory was freed. The clock runs from the first time, also for calls in line."""
        core = self._running()
        clock = self._runtime.clock
        deadline = clock.monotonic() + self.config.max_block_ms / 1000
        while True:
            # In this order: it may be long since the last try, and all memory may have been freed since.
            room = core.producer.space()
            try:
                delivery = full.again()
                room.cancel()
                return delivery
            except NoRoom as still:
                full = still
            try:
                await within(clock, deadline - clock.monotonic(), room)
            except TimeoutError:
                raise self._full(full) from full

    def _full(self, full: NoRoom) -> BufferFullError:
        limit = "max_buffered_records" if full.limit == "records" else "buffer_memory"
        return BufferFullError(
            f"the buffer for records is full for more than max_block_ms ({self.config.max_block_ms} ms): {full}. "
            f"Either brokers take too little, or {limit} ({getattr(self.config, limit)}) is too small",
            limit=limit,
        )

    async def produce_batch(self, topic: str, table: Any, *, partition: int | None = None) -> BatchDelivery:
        """Hands all rows of a table over to be sent: anything that exports Arrow (pyarrow, polars, pandas, duckdb).

        Also several tables one by one: an iterable or an asynchronous one. Its columns are `value`, and where wanted
        `key`, `headers`, `timestamp` and `partition`. Awaits while the buffer is full, for at most `max_block_ms` at
        a time; await what comes back for all rows to be delivered.

        PartlySentError: the first rows have been handed over, and `sent` has their receipt; with any other error,
        none.
        """
        return await self._running().producer.produce_batch(topic, table, partition=partition)

    async def produce_batches(self, tables: Mapping[str, Any]) -> dict[str, BatchDelivery]:
        """`produce_batch` for several topics: those that are new are looked up, or created, all at once.

        Rows of all of them are looked at before the first is sent; errors are those of `produce_batch`.
        """
        producer = self._running().producer
        producer.expect(tables)
        return await producer.handover().produce(tables)

    async def flush(self, timeout: float | None = None) -> None:
        """Sends everything produced so far, and returns when all of it is delivered.

        A DeliveryError says how many records failed since the last flush, and why. A TimeoutError after `timeout`
        seconds leaves the rest to go on.
        """
        check_timeout(timeout)
        if self._core is not None or self._ended is not None:
            await self._running().producer.flush(timeout)

    def abort_buffered(self) -> int:
        """Gives up records that are certainly not stored yet; how many. Their receipts have an AbortedError."""
        return self._running().producer.abort_buffered()

    # Transactions

    async def init_transactions(self, timeout: float | None = None) -> None:
        """Makes this client the producer of its transactional_id; an older one is fenced, and what it left aborted.

        The first `begin_transaction` does it by itself.
        """
        check_timeout(timeout)
        await self._transactions().init(timeout)

    async def take_transactional_id(
        self,
        transactional_id: str,
        identity: tuple[int, int] | None = None,
        *,
        transaction_timeout_ms: int | None = None,
        timeout: float | None = None,
    ) -> None:
        """Goes on with another transactional id than the configured one, on the connections that there are.

        Not while a transaction is open, or its outcome unknown; one that is prepared stays as it is. With `identity`,
        producer id and epoch, it is the producer that another process has initialized, and nothing initializes it
        here: after an error, take an id anew. `transaction_timeout_ms` is for the new id, in place of the option.
        """
        check_timeout(timeout)
        manager = self._transactions()
        if not transactional_id:
            raise ValueError(f"transactional_id={transactional_id!r}: a name is needed, which is not empty")
        given = None if identity is None else ProducerIdentity(*identity)
        await manager.take(transactional_id, given, transaction_timeout_ms, timeout)

    async def begin_transaction(self, timeout: float | None = None) -> AsyncTransaction:
        """Begins a transaction: what is produced from now on belongs to it, until its `commit` or `abort`."""
        from ottla.client.transactions.transaction import AsyncTransaction

        check_timeout(timeout)
        manager = self._transactions()
        return AsyncTransaction(manager, self._running().home, await manager.begin(timeout))

    def transaction(self) -> AsyncTransactionBlock:
        """A transaction for an `async with` block: committed at its end, aborted if the block raises.

        async with kafka.transaction():
            await kafka.produce("orders", b"1")
        """
        from ottla.client.transactions.transaction import AsyncTransactionBlock

        return AsyncTransactionBlock(self._transactions(), self._running().home)

    @property
    def transaction_state(self) -> TransactionState:
        """What the transactional producer is doing, and what is wrong with it if something is."""
        return self._transactions().state()

    def transact_session(
        self, *topics: Subscribed, group: str, **options: Unpack[ConsumeOptions]
    ) -> AsyncTransactSession:
        """Consume in a group, process, and produce in a transaction that commits the offsets too: exactly once.

        async with kafka.transact_session("orders", group="billing") as session:
            while True:
                records = await session.poll()
                await session.begin()
                for record in records:
                    await session.produce("bills", record.value)
                await session.end()
        """
        from ottla.client.transactions.session import AsyncTransactSession, session_config

        manager = self._transactions()
        consumer = self._consume(topics, session_config(self.config, manager), group=group, **options)
        return AsyncTransactSession(manager, consumer, self.produce, self._running().home)

    async def commit_prepared(self, prepared: PreparedTransaction, timeout: float | None = None) -> None:
        """Commits what another client, perhaps in another process, has prepared.

        PreparedTransactionError: it cannot be committed, and says what is known. TransactionPendingError: nothing is
        known yet; call it again, as often as is needed.
        """
        await self._end_prepared(prepared, True, timeout)

    async def abort_prepared(self, prepared: PreparedTransaction, timeout: float | None = None) -> None:
        """The same, to abort it."""
        await self._end_prepared(prepared, False, timeout)

    async def _end_prepared(self, prepared: PreparedTransaction, commit: bool, timeout: float | None) -> None:
        check_timeout(timeout)
        core = self._running()
        if core.transactions is not None and core.transactions.has_prepared(*prepared):
            await core.transactions.end(core.transactions.machine.number, commit=commit, timeout=timeout)
        else:
            await core.end_prepared(prepared, commit=commit, timeout=timeout)

    def _transactions(self) -> TransactionManager:
        manager = self._running().transactions
        if manager is None:
            raise ConfigurationError(
                "transactions need a name that outlives the client: set transactional_id",
                option="transactional_id",
            )
        return manager

    # Purging

    async def purge_topics(
        self, *topics: str, producing: bool = True, consuming: bool = True, timeout: float | None = None
    ) -> int:
        """Forgets topics, for producing and for consuming; how many records were given up.

        Records that were not sent yet fail with an AbortedError; those in flight end with their response. Consumers
        read the topics no more (`AsyncConsumer.purge_topics`), and nothing fetched before is seen after. A record
        that is produced later begins anew, with the topic as it is then.
        """
        core = self._running()
        waited = core.awaitable_purges() if consuming else []
        return await self._purge(topics, producing, consuming, waited, timeout)

    async def _purge(
        self,
        topics: Sequence[str],
        producing: bool,
        consuming: bool,
        waited: Sequence[AsyncConsumer],
        timeout: float | None,
    ) -> int:
        check_timeout(timeout)
        seconds = self.config.default_api_timeout_ms / 1000 if timeout is None else timeout
        return await self._running().purge(topics, producing, consuming, waited, seconds)

    # Consuming

    @overload
    def consume(
        self, *topics: Subscribed, group: str, **options: Unpack[ConsumeOptions]
    ) -> AsyncGroupConsumer: ...

    @overload
    def consume(
        self, *topics: Subscribed, group: None = None, **options: Unpack[ConsumeOptions]
    ) -> AsyncConsumer: ...

    def consume(
        self,
        *topics: Subscribed,
        group: str | None = None,
        start: Start | None = None,
        stop: Stops | None = None,
        key_deserializer: Any = None,
        value_deserializer: Any = None,
        on_error: OnError = "raise",
        group_instance_id: str | None = None,
        on_assigned: OnPartitions | None = None,
        on_revoked: OnPartitions | None = None,
        on_lost: OnPartitions | None = None,
    ) -> AsyncConsumer:
        """Reads topics: by name, by pattern (`re.compile`, `ServerPattern`), or single partitions (`TopicPartition`).

        `start` is "earliest", "latest", an offset, a datetime or a `Timestamp`; without it, "earliest" if there is a
        `stop`, else `auto_offset_reset`. `stop` ends the iteration: "latest" is the end as it is when reading begins.
        A mapping has a stop for each of the single partitions.

        With a `group`, which is `group_id` where whole topics are read without a stop, the members of the group share
        the partitions, and go on where the group has committed; `start` is for what it has not. The callbacks are
        called with the consumer and the partitions that come or go.

            async for record in kafka.consume("orders", start="earliest", stop="latest"):
                ...
        """
        consumer: AsyncConsumer = self._consume(
            topics,
            None,
            group=group,
            start=start,
            stop=stop,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
            on_error=on_error,
            group_instance_id=group_instance_id,
            on_assigned=on_assigned,
            on_revoked=on_revoked,
            on_lost=on_lost,
        )
        return consumer

    def _consume(
        self,
        topics: Sequence[Subscribed],
        config: ClientConfig | None,
        *,
        group: str | None = None,
        start: Start | None = None,
        stop: Stops | None = None,
        key_deserializer: Any = None,
        value_deserializer: Any = None,
        on_error: OnError = "raise",
        group_instance_id: str | None = None,
        on_assigned: OnPartitions | None = None,
        on_revoked: OnPartitions | None = None,
        on_lost: OnPartitions | None = None,
    ) -> Any:
        """`config` is for this consumer alone."""
        # Here, as in ClientCore: only what consumes imports how.
        from ottla.client.consume.subscription import Subscription

        core = self._running()
        key = self._key_deserializer if key_deserializer is None else key_deserializer
        value = self._value_deserializer if value_deserializer is None else value_deserializer
        subscription = Subscription.of(*topics)
        if group is None and self.config.group_id and stop is None and not subscription.partitions:
            group = self.config.group_id
        if group is not None:
            from ottla.client.group.callbacks import RebalanceListeners

            membership: dict[str, Any] = {
                "group": group,
                "instance_id": group_instance_id,
                "listeners": RebalanceListeners(on_assigned, on_revoked, on_lost),
            }
        else:
            check_no_group(
                group_instance_id=group_instance_id,
                on_assigned=on_assigned,
                on_revoked=on_revoked,
                on_lost=on_lost,
            )
            membership = {}
        return core.consumer(
            subscription,
            config=config,
            **membership,
            start=start,
            stop=stop,
            key_deserializer=resolve_deserializer(key, "key"),
            value_deserializer=resolve_deserializer(value, "value"),
            interceptors=[each for each in self._interceptors if isinstance(each, ConsumerInterceptor)],
            on_error=on_error,
            raw_producer=_RawProducer(self._produce_raw),
        )

    def consume_batches(
        self,
        *topics: Subscribed,
        start: Start | None = None,
        stop: Stops | None = None,
        group: str | None = None,
    ) -> AsyncBatchReader:
        """Reads topics as Arrow: a `pyarrow.RecordBatch` for what one fetch brings of one partition."""
        consumer: AsyncConsumer = (
            self.consume(*topics, start=start, stop=stop)
            if group is None
            else self.consume(*topics, start=start, stop=stop, group=group)
        )
        return consumer.batches()

    # Everything else

    @property
    def admin(self) -> AsyncAdmin:
        """Topics, configs, offsets, records and brokers."""
        return self._running().admin

    async def request(
        self,
        request: Message,
        *,
        broker: int | None = None,
        version: int | None = None,
        timeout: float | None = None,
    ) -> Message:
        """Any request of Kafka's protocol, to the brokers that it is for; see `Requests.send`."""
        return await self._running().requests.send(request, broker=broker, version=version, timeout=timeout)

    async def request_sharded(
        self, request: Message, *, version: int | None = None, timeout: float | None = None
    ) -> list[Shard]:
        """A request that goes to several brokers, with the response or the error of each."""
        return await self._running().requests.fan_out(request, version=version, timeout=timeout)

    def metrics(self) -> MetricsSnapshot:
        """What the client has done and how long it took, at this moment."""
        return self._running().metrics.snapshot()

    # Beginning and end

    def _running(self) -> ClientCore:
        if self._ended is not None:
            # The same one each time: its traceback must not grow.
            raise self._ended.with_traceback(None)
        if self._core is None:
            check_there_is_a_loop()
            self._core = ClientCore(
                self.config,
                self._runtime,
                hooks=self._hooks,
                partitioner=self._partitioner,
                key_serializer=self._key_serializer,
                value_serializer=self._value_serializer,
                interceptors=[each for each in self._interceptors if isinstance(each, ProducerInterceptor)],
                threads=self._threads,
            )
            self._finalizer = finalize(self, _warn_of_lost_records, self._core.producer)
        self._core.home.check()
        return self._core

    async def close(self, timeout: float = CLOSE_TIMEOUT) -> None:
        """Delivers what is buffered, for at most `timeout` seconds, and ends everything.

        A DeliveryError says that records failed since the last flush, or were given up now.
        """
        check_timeout(timeout)
        self.check_outside_callbacks()
        if self._core is not None and (self._ended is None or self._closing is not None):
            self._core.home.check()
        if self._closing is not None:
            # A second call returns when everything is closed, too; the outcome is the first one's.
            await asyncio.shield(self._closing)
        if self._ended is not None:
            return
        self._ended = ClientClosedError("the client is closed")
        if self._core is None:
            return
        self._closing = asyncio.get_running_loop().create_future()
        self._detach_finalizer()
        try:
            await self._core.close(timeout)
        finally:
            self._closing.set_result(None)
            self._closing = None

    def check_outside_callbacks(self) -> None:
        """A RuntimeError in a callback of a rebalance, which `close` would wait for."""
        if self._core is not None:
            self._core.check_outside_callbacks()

    def forked(self) -> None:
        self._ended = forked_error()
        if self._core is not None:
            self._core.forked(self._ended)
            self._core = None
            self._detach_finalizer()

    def _detach_finalizer(self) -> None:
        if self._finalizer is not None:
            self._finalizer.detach()
            self._finalizer = None


def _warn_of_lost_records(producer: Producer) -> None:
    """When a client is gone, or its program ends, without `close`: there is no call left to raise an error."""
    if count := producer.buffered_records:
        _logger.warning(
            "a client was not closed and takes records with it that are not acknowledged: %d. End with flush() or "
            "close(), or use the client in a `with`",
            count,
        )


class _RawProducer:
    """Sends records as they are: what could not be deserialized is not to be serialized."""

    def __init__(self, produce: Callable[..., Any]) -> None:
        self.produce = produce
