"""ClientCore: the services of one client, started and closed in order.

    brokers      connections, by broker and purpose
    metadata     who leads what
    transactions what is seen together; only with a transactional id
    producer     records out; consumers bring records in
    requests     every other request; admin is built on it
    metrics      what happened; telemetry pushes it to brokers that want it

Invariant: closing ends in bounded time, and each step of it is taken whatever becomes of the one before.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from ottla.client.connections.brokers import Brokers
from ottla.client.context import ClientContext
from ottla.client.home_loop import CallingThreads, HomeLoop
from ottla.client.metadata import Metadata, check_name
from ottla.client.metrics import Metrics
from ottla.client.partitioners import Partitioner
from ottla.client.produce.producer import Producer
from ottla.client.requests.requests import Requests
from ottla.client.tasks import Tasks
from ottla.client.telemetry import TelemetryReporter
from ottla.config import ClientConfig
from ottla.errors import KafkaError
from ottla.hooks import Hooks, ProducerInterceptor
from ottla.runtime import Runtime
from ottla.serde import Serialize

if TYPE_CHECKING:
    from ottla.client.admin import AsyncAdmin
    from ottla.client.consume.consumer import AsyncConsumer
    from ottla.client.consume.subscription import Subscription
    from ottla.client.transactions.manager import TransactionManager
    from ottla.client.transactions.prepared import PreparedTransaction

_logger = logging.getLogger("ottla.client")


class ClientCore:
    """Made on the client's loop. With `threads`, other threads than the loop's append records and read them."""

    def __init__(
        self,
        config: ClientConfig,
        runtime: Runtime,
        *,
        hooks: Iterable[object],
        partitioner: Partitioner,
        key_serializer: Serialize | None,
        value_serializer: Serialize | None,
        interceptors: Sequence[ProducerInterceptor],
        threads: CallingThreads | None = None,
    ) -> None:
        self.home = HomeLoop()  # a RuntimeError here is clearer than one of a service
        self._config = config
        self._runtime = runtime
        self._threads = threads
        self.metrics = Metrics(runtime.clock)
        self.hooks = Hooks(hooks, own=self.metrics)
        self._tasks = Tasks()
        self._brokers = Brokers(config, runtime, self.hooks, self._tasks)
        self.metadata = Metadata(config, runtime, self.hooks, self._brokers, self._tasks)
        self._context = ClientContext(config, runtime, self.hooks, self._brokers, self.metadata, self._tasks)
        self.requests = Requests(config, runtime, self._brokers, self.metadata)
        self.transactions: TransactionManager | None = None
        if config.transactional_id:
            from ottla.client.transactions.manager import TransactionManager

            self.transactions = TransactionManager(self._context, self.requests)
        self.producer = Producer(
            self._context,
            partitioner=partitioner,
            key_serializer=key_serializer,
            value_serializer=value_serializer,
            interceptors=interceptors,
            threads=threads,
            transactions=self.transactions,
        )
        if self.transactions is not None:
            self.transactions.attach(self.producer)
        self._telemetry = TelemetryReporter(config, runtime, self._brokers, self._tasks, self.metrics)
        self._consumers: dict[AsyncConsumer, int] = {}
        self._failure: KafkaError | None = None
        self.metrics.watch_buffer(
            lambda: self.producer.buffered_records, lambda: self.producer.buffered_bytes, config.buffer_memory
        )
        self._tasks.on_crash = self._crashed
        self._telemetry.start()
        self.metadata.start()

    @cached_property
    def admin(self) -> AsyncAdmin:
        """Imported with its first use: a client that only reads or writes, as in a Spark worker, has none."""
        from ottla.client.admin import AsyncAdmin

        return AsyncAdmin(self.home, self.requests, self.metadata, self._config, self._runtime)

    def _crashed(self, name: str, error: BaseException) -> None:
        """A bug of ours: a call must not wait for what does not run any more."""
        from ottla.client.consume.fetch_queue import Failure

        failure = KafkaError(
            f"the client's task {name!r} crashed: {error!r}; close the client and make a new one"
        )
        failure.__cause__ = error
        self._failure = self._failure or failure
        self.producer.crashed(failure)
        for consumer in self._consumers:
            consumer.queue.put(Failure(failure))

    def consumer(
        self,
        subscription: Subscription,
        *,
        group: str | None = None,
        config: ClientConfig | None = None,
        **options: Any,
    ) -> AsyncConsumer:
        """A new consumer, with a group or without. The first has lane 0, those beside it the lowest that is free."""
        # Here, since a client that only produces or administers starts sooner without them.
        from ottla.client.consume.consumer import AsyncConsumer
        from ottla.client.consume.context import ConsumerContext

        if self._failure is not None:
            raise self._failure
        taken = list(self._consumers.values())
        lane = next(number for number in range(len(taken) + 1) if number not in taken)
        make: Callable[..., AsyncConsumer] = AsyncConsumer
        if group is not None:
            from ottla.client.group.consumer import AsyncGroupConsumer

            make = partial(AsyncGroupConsumer, group=group, requests=self.requests)
        consumer = make(
            ConsumerContext.of(
                self._context if config is None else replace(self._context, config=config), lane
            ),
            subscription,
            wake=None if self._threads is None else self._threads.later,
            on_ended=self._forget,
            **options,
        )
        self._consumers[consumer] = lane
        self.metrics.watch_lag(consumer.lag)
        return consumer

    @property
    def consumers(self) -> list[AsyncConsumer]:
        return list(self._consumers)

    def awaitable_purges(self) -> list[AsyncConsumer]:
        """The consumers whose purge the calling thread, or task, can wait for."""
        return [consumer for consumer in self._consumers if consumer.may_wait_for_purge()]

    async def purge(
        self,
        topics: Sequence[str],
        producing: bool,
        consuming: bool,
        waited: Sequence[AsyncConsumer],
        seconds: float,
    ) -> int:
        """Forgets topics; how many records were given up. `waited` are the consumers to wait for."""
        for topic in topics:
            check_name(topic)
        given_up = self.producer.purge(topics) if producing else 0
        try:
            if consuming:
                from ottla.client.consume.purging import purge_consumers

                await purge_consumers(self.consumers, topics, waited, self._runtime.clock, seconds)
        finally:
            for topic in topics:
                self.metadata.purge(topic)
        return given_up

    def _forget(self, consumer: AsyncConsumer) -> None:
        self._consumers.pop(consumer, None)
        self.metrics.unwatch_lag(consumer.lag)

    def check_outside_callbacks(self) -> None:
        """Refuses to close the client for one that its consumers wait for."""
        if any(consumer.is_called_back() for consumer in self._consumers):
            raise RuntimeError(
                "a callback of a rebalance has closed its client, which waits for the callback: close the consumer "
                "there, and the client when the callback has returned"
            )

    async def close(self, timeout: float) -> None:
        first: BaseException | None = None
        consumers = [consumer.close for consumer in reversed(self._consumers)]
        steps: list[Callable[[], Awaitable[None]]] = [
            *consumers,
            lambda: self._end_transaction(timeout),
            lambda: self.producer.close(timeout),
            self._telemetry.close,
            self.metadata.close,
            self._brokers.close,
            self._tasks.close,
        ]
        for step in steps:
            try:
                await step()
            except KafkaError as error:
                first = first or error
            except BaseException as error:  # noqa: BLE001
                # Cancelled, or a bug: what is open must be closed all the same, and this is what the caller sees.
                _logger.debug("closing goes on after %r", error)
                first = error
        if (on_client_closed := self.hooks.on_client_closed) is not None:
            on_client_closed()
        if first is not None:
            raise first

    async def _end_transaction(self, timeout: float) -> None:
        if self.transactions is not None:
            await self.transactions.close(timeout)

    async def end_prepared(
        self, prepared: PreparedTransaction, *, commit: bool, timeout: float | None
    ) -> None:
        """For any transactional id; see transactions/prepared.py."""
        from ottla.client.transactions.prepared import end_prepared

        await end_prepared(self._context, self.requests, prepared, commit=commit, timeout=timeout)

    def forked(self, error: KafkaError) -> None:
        """In a forked child: whatever is called must raise, and nothing may touch the connections."""
        self.producer.forked(error)
