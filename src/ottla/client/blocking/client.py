"""`Client`: the client for code that blocks; the twin of `AsyncClient`, which does the work.

    with ottla.Client("localhost:9092") as kafka:
        kafka.produce("orders", b"...", key=b"42")
        kafka.flush()
        for record in kafka.consume("orders", start="earliest"):
            ...

Any thread may call. Appending a record happens in the thread that produces and decoding in the one that reads; the
rest is done on a loop that the calling thread runs (driver.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

from ottla.client.blocking.driver import Driver
from ottla.client.blocking.forks import on_fork
from ottla.client.client import CLOSE_TIMEOUT, AsyncClient
from ottla.client.deadline import check_timeout
from ottla.client.home_loop import CallingThreads
from ottla.client.metrics import MetricsSnapshot
from ottla.client.partitioners import Partitioner
from ottla.client.partitioners.function import PartitionFunction
from ottla.client.produce.batch_delivery import BatchDelivery
from ottla.client.produce.columns import Handover
from ottla.client.produce.failures import still_under_way
from ottla.client.produce.record_path import NoRoom
from ottla.client.produce.tables import is_several
from ottla.client.requests.requests import Shard
from ottla.config import ClientConfig, ClientOptions
from ottla.errors import KafkaError
from ottla.hooks import ConsumerInterceptor, ProducerInterceptor
from ottla.wire import Message
from ottla.wire.records import Delivery, ThreadProducer

if TYPE_CHECKING:
    from ottla.client.blocking.admin import Admin
    from ottla.client.blocking.consumer import Consumer
    from ottla.client.blocking.group_consumer import GroupConsumer
    from ottla.client.blocking.transact_session import TransactSession
    from ottla.client.blocking.transaction import Transaction, TransactionBlock
    from ottla.client.client import ConsumeOptions
    from ottla.client.consume.iterators import BatchReader
    from ottla.client.consume.offset_spec import Start, Stops
    from ottla.client.consume.subscription import Subscribed
    from ottla.client.transactions.machine import TransactionState
    from ottla.client.transactions.prepared import PreparedTransaction
    from ottla.client.transactions.session import AsyncTransactSession
    from ottla.client.transactions.transaction import AsyncTransaction

_T = TypeVar("_T")


class Client(ThreadProducer):
    """A client of a Kafka cluster; `AsyncClient` says what the options and methods mean.

    `produce` is compiled (`_native/appender.pyx`), because a call of Python is half of what an append takes.
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
        **options: Unpack[ClientOptions],
    ) -> None:
        self._client = AsyncClient(
            bootstrap_servers,
            config=config,
            partitioner=partitioner,
            key_serializer=key_serializer,
            value_serializer=value_serializer,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
            hooks=hooks,
            interceptors=interceptors,
            **options,
        )
        self.config = self._client.config
        self._driver = Driver("ottla-client")
        self._client._threads = CallingThreads(
            self._driver.post, self._driver.later, self._driver.hurry, self._wait
        )
        on_fork(self)
        try:
            self._core = self._driver.call(_called(self._client._running))
        except BaseException:
            self._driver.close()
            raise
        self._producer = self._core.producer
        self._appenders = self._producer.quick_appenders
        self._dirty = self._producer.dirty
        self._notify = self._producer.notify

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        # What made the block end is what the user is to see.
        try:
            self.close()
        except KafkaError as also:
            error.add_note(f"closing the client failed too: {also}")

    # Producing

    def _produce(self, *record: Any) -> Delivery:
        """What is not usual of `produce`: it opens the topic, waits for room, or raises what is wrong."""
        try:
            return self._producer.produce(*record)
        except NoRoom as full:
            return self._driver.call(self._client._when_there_is_room(full))

    def produce_batch(self, topic: str, table: Any, *, partition: int | None = None) -> BatchDelivery:
        """Hands all rows of a table over to be sent: anything that exports Arrow (pyarrow, polars, ...).

        Also several tables one by one, from any iterable.
        """
        return self._hand_over({topic: table}, self._producer.handover(partition))[topic]

    def produce_batches(self, tables: Mapping[str, Any]) -> dict[str, BatchDelivery]:
        """`produce_batch` for several topics: those that are new are looked up, or created, all at once."""
        self._driver.call(_called(partial(self._producer.expect, tables)))
        return self._hand_over(tables, self._producer.handover())

    def _hand_over(self, tables: Mapping[str, Any], handover: Handover) -> dict[str, BatchDelivery]:
        # Tables are read in this thread, not on the loop: they may come from a consumer of this very client.
        self._driver.check()
        several = {topic: table for topic, table in tables.items() if is_several(table)}
        opened = handover.open_all(tables)
        if not several:
            return self._driver.call(handover.produce_open(opened))
        try:
            self._driver.call(handover.append(opened))
            for topic, each in several.items():
                for table in each:
                    self._driver.call(handover.append([handover.open(topic, table)]))
        except BaseException as error:
            # Not to be waited for: the client may be closed.
            self._driver.soon(handover.complete)
            handover.raise_if_sent(error)
            raise
        return self._driver.call(_called(handover.complete))

    def flush(self, timeout: float | None = None) -> None:
        """Returns when everything produced so far is delivered; a DeliveryError says that some of it failed."""
        self._driver.call(self._client.flush(timeout))

    def abort_buffered(self) -> int:
        """Gives up records that are certainly not stored yet; how many."""
        return self._driver.call(_called(self._client.abort_buffered))

    def purge_topics(
        self, *topics: str, producing: bool = True, consuming: bool = True, timeout: float | None = None
    ) -> int:
        """Forgets topics, for producing and for consuming; how many records were given up."""
        # In the calling thread: it knows whether it is called back.
        waited = self._core.awaitable_purges() if consuming else []
        return self._driver.call(self._client._purge(topics, producing, consuming, waited, timeout))

    def _wait(self, delivery: Delivery, timeout: float | None) -> None:
        """Until it is done or the time is up: the delivery sees which. An ApiTimeoutError if brokers are to blame."""
        if timeout is not None:
            check_timeout(timeout)
        self._driver.wait(delivery, timeout, self._client._runtime.clock)
        if delivery.done():
            return
        why = self._driver.call(_called(lambda: self._client._running().metadata.failure()))
        if why is not None:
            late = f"what is for {delivery.topic} was not delivered within {timeout} s; it is still under way"
            raise still_under_way(late, why)

    # Transactions

    def init_transactions(self, timeout: float | None = None) -> None:
        """Makes this client the producer of its transactional_id; the first `begin_transaction` does it by itself."""
        self._driver.call(self._client.init_transactions(timeout))

    def take_transactional_id(
        self,
        transactional_id: str,
        identity: tuple[int, int] | None = None,
        *,
        transaction_timeout_ms: int | None = None,
        timeout: float | None = None,
    ) -> None:
        """Goes on with another transactional id than the configured one, on the connections that there are."""
        self._driver.call(
            self._client.take_transactional_id(
                transactional_id, identity, transaction_timeout_ms=transaction_timeout_ms, timeout=timeout
            )
        )

    def begin_transaction(self, timeout: float | None = None) -> Transaction:
        """Begins a transaction: what is produced from now on belongs to it, until its `commit` or `abort`."""
        from ottla.client.blocking.transaction import Transaction

        check_timeout(timeout)
        begun = self._driver.now(self._begin_now)
        if begun is None:
            begun = self._driver.call(self._client.begin_transaction(timeout))
        return Transaction(begun, self._driver)

    def _begin_now(self) -> AsyncTransaction | None:
        """Where nothing has to be waited for."""
        from ottla.client.transactions.transaction import AsyncTransaction

        manager = self._client._transactions()
        number = manager.begin_now()
        return None if number is None else AsyncTransaction(manager, self._core.home, number)

    def transaction(self) -> TransactionBlock:
        """A transaction for a `with` block: committed at its end, aborted if the block raises.

        with kafka.transaction():
            kafka.produce("orders", b"1")
        """
        from ottla.client.blocking.transaction import TransactionBlock

        return TransactionBlock(self.begin_transaction)

    @property
    def transaction_state(self) -> TransactionState:
        """What the transactional producer is doing, and what is wrong with it if something is."""
        return self._driver.call(_called(lambda: self._client.transaction_state))

    def transact_session(
        self, *topics: Subscribed, group: str, **options: Unpack[ConsumeOptions]
    ) -> TransactSession:
        """Consume in a group, process, and produce in a transaction that commits the offsets too: exactly once.

        with kafka.transact_session("orders", group="billing") as session:
            while True:
                records = session.poll()
                session.begin()
                for record in records:
                    session.produce("bills", record.value)
                session.end()
        """
        from ottla.client.blocking.transact_session import TransactSession

        async def session() -> AsyncTransactSession:
            return self._client.transact_session(*topics, group=group, **options)

        return TransactSession(
            self._driver.call(session()), self._driver, self._client._runtime, self.produce
        )

    def commit_prepared(self, prepared: PreparedTransaction, timeout: float | None = None) -> None:
        """Commits what another client, perhaps in another process, has prepared."""
        self._driver.call(self._client.commit_prepared(prepared, timeout))

    def abort_prepared(self, prepared: PreparedTransaction, timeout: float | None = None) -> None:
        """The same, to abort it."""
        self._driver.call(self._client.abort_prepared(prepared, timeout))

    # Consuming

    @overload
    def consume(
        self, *topics: Subscribed, group: str, **options: Unpack[ConsumeOptions]
    ) -> GroupConsumer: ...

    @overload
    def consume(
        self, *topics: Subscribed, group: None = None, **options: Unpack[ConsumeOptions]
    ) -> Consumer: ...

    def consume(
        self, *topics: Subscribed, group: str | None = None, **options: Unpack[ConsumeOptions]
    ) -> Consumer:
        """Reads topics: by name, by pattern (`re.compile`, `ServerPattern`), or single partitions (`TopicPartition`).

        With a `group`, its members share the partitions, and go on where the group has committed.
        """
        # In the calling thread, so that the loop does not stand still meanwhile.
        from ottla.client.blocking.consumer import Consumer

        async def consumer() -> Any:
            if group is None:
                return self._client.consume(*topics, **options)
            return self._client.consume(*topics, group=group, **options)

        made = self._driver.call(consumer())
        if made.polling is None:
            return Consumer(made, self._driver)
        from ottla.client.blocking.group_consumer import GroupConsumer

        return GroupConsumer(made, self._driver, self._client._runtime)

    def consume_batches(
        self,
        *topics: Subscribed,
        start: Start | None = None,
        stop: Stops | None = None,
        group: str | None = None,
    ) -> BatchReader:
        """Reads topics as Arrow: a `pyarrow.RecordBatch` for what one fetch brings of one partition.

        Also an Arrow stream: `polars.DataFrame(kafka.consume_batches("orders", stop="latest"))`.
        """
        consumer: Consumer = (
            self.consume(*topics, start=start, stop=stop)
            if group is None
            else self.consume(*topics, start=start, stop=stop, group=group)
        )
        return consumer.batches()

    # Everything else

    @cached_property
    def admin(self) -> Admin:
        """Topics, configs, offsets, records and brokers."""
        # With its first use, as ClientCore does: it is a good part of what there is to import.
        from ottla.client.blocking.admin import Admin

        return Admin(self._core.admin, self._driver.call)

    def run(self, function: Callable[[AsyncClient], Awaitable[_T]]) -> _T:
        """Runs a coroutine function with the `AsyncClient` in here, on its loop, and blocks until it returns.

            kafka.run(lambda client: copy(client, "orders", "archive"))

        What it does there must not block. Ctrl-C cancels it.
        """

        async def running() -> _T:
            return await function(self._client)

        return self._driver.call(running())

    def request(
        self,
        request: Message,
        *,
        broker: int | None = None,
        version: int | None = None,
        timeout: float | None = None,
    ) -> Message:
        """Any request of Kafka's protocol, to the brokers that it is for."""
        return self._driver.call(
            self._client.request(request, broker=broker, version=version, timeout=timeout)
        )

    def request_sharded(
        self, request: Message, *, version: int | None = None, timeout: float | None = None
    ) -> list[Shard]:
        """A request that goes to several brokers, with the response or the error of each."""
        return self._driver.call(self._client.request_sharded(request, version=version, timeout=timeout))

    def metrics(self) -> MetricsSnapshot:
        """What the client has done and how long it took, at this moment."""
        return self._driver.call(_called(self._client.metrics))

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be done with it any more: closed, or of the process that this one was forked from."""
        return self._driver.is_over

    def close(self, timeout: float = CLOSE_TIMEOUT) -> None:
        """Delivers what is buffered, for at most `timeout` seconds, and ends everything."""
        check_timeout(timeout)
        if self._driver.is_over:
            return
        self._client.check_outside_callbacks()
        self._driver.finish(self._client.close(timeout))

    def forked(self) -> None:
        """In a forked child: every call raises a ForkedError; for produce, the AsyncClient in here sees to it."""
        self._driver.forked()
        self._appenders = {}


async def _called(function: Callable[[], _T]) -> _T:
    return function()
