"""What a client is made of, put together and taken apart in order.

    brokers      connections, by broker and purpose
    metadata     who leads what
    producer     records out; consumers bring records in
    requests     everything else that is asked; admin is built on it
    metrics      what happened; telemetry pushes it to brokers that ask

Invariant: closing ends in bounded time, and each step of it is taken whatever becomes of the one before.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeAlias

from ottla.client.admin import AsyncAdmin
from ottla.client.connections.brokers import Brokers
from ottla.client.consume.consumer import AsyncConsumer
from ottla.client.consume.fetch_queue import Failure
from ottla.client.consume.subscription import Subscription
from ottla.client.home_loop import HomeLoop
from ottla.client.metadata import Metadata
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

_logger = logging.getLogger("ottla.client")

Wake: TypeAlias = Callable[[Callable[[], object]], None]
Wait: TypeAlias = Callable[[Any, float | None], None]


class ClientCore:
    """The parts of one client; made on its loop."""

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
        wake: Wake | None,
        later: Wake | None,
        wait: Wait | None,
    ) -> None:
        self.home = HomeLoop()  # a RuntimeError here is clearer than one of its parts
        self._config = config
        self._runtime = runtime
        self._later = later
        self.metrics = Metrics(runtime.clock)
        self.hooks = Hooks(hooks, own=self.metrics)
        self._tasks = Tasks()
        self._brokers = Brokers(config, runtime, self.hooks, self._tasks)
        self.metadata = Metadata(config, runtime, self.hooks, self._brokers, self._tasks)
        self.producer = Producer(
            config,
            runtime,
            self.hooks,
            self._brokers,
            self.metadata,
            self._tasks,
            partitioner=partitioner,
            key_serializer=key_serializer,
            value_serializer=value_serializer,
            interceptors=interceptors,
            wake=wake,
            wait=wait,
        )
        self.requests = Requests(config, runtime, self._brokers, self.metadata)
        self.admin = AsyncAdmin(self.requests, self.metadata, config, runtime)
        self._telemetry = TelemetryReporter(config, runtime, self._brokers, self._tasks, self.metrics)
        self._consumers: dict[AsyncConsumer, int] = {}
        self._failure: KafkaError | None = None
        self.metrics.watch_buffer(
            lambda: self.producer.buffered_records, lambda: self.producer.buffered_bytes, config.buffer_memory
        )
        self._tasks.on_crash = self._crashed
        self._telemetry.start()
        self.metadata.start()

    def _crashed(self, name: str, error: BaseException) -> None:
        """A bug of ours: whoever waits must not wait for what does not run any more."""
        failure = KafkaError(
            f"the client's task {name!r} crashed: {error!r}; close the client and make a new one"
        )
        failure.__cause__ = error
        self._failure = self._failure or failure
        self.producer.crashed(failure)
        for consumer in self._consumers:
            consumer.queue.put(Failure(failure))

    def consumer(self, subscription: Subscription, **options: Any) -> AsyncConsumer:
        """A new consumer. The first one has lane 0, those beside it the lowest that is free."""
        if self._failure is not None:
            raise self._failure
        taken = list(self._consumers.values())
        lane = next(number for number in range(len(taken) + 1) if number not in taken)
        consumer = AsyncConsumer(
            self._config,
            self._runtime,
            self.hooks,
            self._brokers,
            self.metadata,
            self._tasks,
            lane=lane,
            subscription=subscription,
            wake=self._later,
            on_ended=self._forget,
            **options,
        )
        self._consumers[consumer] = lane
        self.metrics.watch_lag(consumer.lag)
        return consumer

    def _forget(self, consumer: AsyncConsumer) -> None:
        self._consumers.pop(consumer, None)
        self.metrics.unwatch_lag(consumer.lag)

    async def close(self, timeout: float) -> None:
        first: BaseException | None = None
        consumers = [consumer.close for consumer in reversed(self._consumers)]
        steps: list[Callable[[], Awaitable[None]]] = [
            *consumers,
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
        if (tell := self.hooks.on_client_closed) is not None:
            tell()
        if first is not None:
            raise first

    def forked(self, error: KafkaError) -> None:
        """In a forked child: whatever is called must raise, and nothing may touch the connections."""
        self.producer.forked(error)
