"""What all admin calls share: sending, reading errors out of responses, timeouts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from ottla.client.admin.results import Results, in_order
from ottla.client.backoff import Backoff
from ottla.client.deadline import Deadline, check_timeout
from ottla.client.home_loop import HomeLoop
from ottla.client.metadata import ClusterView, Metadata, TopicView
from ottla.client.requests.requests import MISSING_TRIES, Requests, Shard
from ottla.client.requests.sharding import in_newest_shape, route_of
from ottla.client.topic_partition import TopicPartition, check_partition
from ottla.config import ClientConfig
from ottla.errors import (
    ConfigurationError,
    KafkaError,
    LeaderNotAvailableError,
    UnknownTopicOrPartitionError,
    from_code,
)
from ottla.runtime import Runtime
from ottla.wire import Message

_R = TypeVar("_R", bound=Message)
_T = TypeVar("_T")


class AdminBase:
    """Of the modules beside it, each with the calls of one subject; AsyncAdmin inherits all of them."""

    def __init__(
        self, home: HomeLoop, requests: Requests, metadata: Metadata, config: ClientConfig, runtime: Runtime
    ) -> None:
        self._home = home
        self._on_loop = requests, metadata
        self._config = config
        self._runtime = runtime
        self._backoff = Backoff(
            config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000, runtime.random
        )

    @property
    def _requests(self) -> Requests:
        """On the client's loop only: a call of another one would never return."""
        self._home.check()
        return self._on_loop[0]

    @property
    def _metadata(self) -> Metadata:
        """On the client's loop only."""
        self._home.check()
        return self._on_loop[1]

    def _seconds(self, timeout: float | None) -> float:
        check_timeout(timeout)
        return self._config.default_api_timeout_ms / 1000 if timeout is None else timeout

    def _timeout_ms(self, timeout: float | None) -> int:
        """The broker's own timeout: it gives up no later than this client does."""
        return min(self._config.request_timeout_ms, int(self._seconds(timeout) * 1000))

    async def _topics(
        self, names: Sequence[str], deadline: Deadline, max_age: float | None = None
    ) -> dict[str, TopicView | KafkaError]:
        """Topics by name; one that a broker does not know is looked up again, as it may just have been created."""
        attempt = 0
        while True:
            view = await self._metadata.fresh(names, max_age=max_age, timeout=deadline.left())
            found = {name: _topic_or_error(view, name) for name in names}
            delay = self._backoff.delay(attempt)
            attempt += 1
            is_last = attempt >= MISSING_TRIES or delay >= deadline.left()
            if is_last or not any(map(_is_missing, found.values())):
                return found
            await self._runtime.clock.sleep(delay)

    def _deadline(self, timeout: float | None) -> Deadline:
        return Deadline(self._runtime.clock, self._seconds(timeout))

    async def _send(
        self, request: Message, expected: type[_R], timeout: float | None, broker: int | None = None
    ) -> _R:
        response = await self._requests.send(request, broker=broker, timeout=timeout)
        assert isinstance(response, expected)
        return response

    async def _send_each(
        self,
        request: Message,
        timeout: float | None,
        read: Callable[[Any], Iterable[tuple[Any, Any, int, str | None]]],
        made: Callable[[Any, Any], _T],
        broker: int | None = None,
    ) -> Results[Any, _T]:
        """Sends a request about several things, to the brokers that they belong to, or all of it to one.

        `read` gives (key, item, error code, message) for each thing in a response, `made` the result of one.
        """
        keys = route_of(in_newest_shape(request)).items.keys(request)
        found: dict[Any, _T] = {}
        errors: dict[Any, KafkaError] = {}
        if broker is None:
            shards = await self._requests.fan_out(request, timeout=timeout)
        else:
            shards = [
                Shard(broker, request, await self._requests.send(request, broker=broker, timeout=timeout))
            ]
        for shard in shards:
            if shard.response is None:
                assert shard.error is not None
                errors.update((key, shard.error) for key in route_of(shard.request).items.keys(shard.request))
                continue
            for key, item, code, message in read(shard.response):
                error = _error(key, code, message, shard)
                if error is None:
                    found[key] = made(key, item)
                else:
                    errors[key] = error
        return in_order(keys, found, errors)


def _topic_or_error(view: ClusterView, name: str) -> TopicView | KafkaError:
    topic = view.topics.get(name)
    if topic is None:
        return UnknownTopicOrPartitionError(topic=name)
    return from_code(topic.error_code, topic=name) or topic


def _is_missing(found: TopicView | KafkaError) -> bool:
    return isinstance(found, UnknownTopicOrPartitionError | LeaderNotAvailableError)


def _error(key: Any, code: int, message: str | None, shard: Shard) -> KafkaError | None:
    topic = key if isinstance(key, str) else None
    partition = None
    if isinstance(key, TopicPartition):
        topic, partition = key
    error = from_code(code, message, topic=topic, partition=partition, broker=shard.broker)
    if error is not None and shard.unsure is not None:
        error.add_note(
            f"the request was sent more than once, because an attempt ended without a response ({shard.unsure});"
            " that one may have been carried out"
        )
    return error


def by_partition(response: Any) -> Iterable[tuple[TopicPartition, Any, int, str | None]]:
    """For `_send_each`: responses with partitions within topics."""
    for topic in response.topics:
        for partition in topic.partitions:
            yield (
                TopicPartition(topic.name, partition.partition_index),
                partition,
                partition.error_code,
                getattr(partition, "error_message", None),
            )


def grouped(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The numbers by topic, in the order in which they came, each once."""
    topics: dict[str, dict[int, None]] = {}
    for each in partitions:
        topic, partition = check_partition(each)
        topics.setdefault(topic, {})[partition] = None
    return {topic: list(numbers) for topic, numbers in topics.items()}


def known_names(option: str, given: Iterable[str], allowed: Sequence[str]) -> list[str]:
    """The names as Kafka writes them, whatever their case."""
    if isinstance(given, str):
        raise TypeError(f"a list is meant, not {given!r}: write {option}=[{given!r}]")
    by_case = {name.lower(): name for name in allowed}
    names = []
    for name in given:
        if name.lower() not in by_case:
            raise ConfigurationError(
                f"{option}={name!r}: it is one of {', '.join(allowed)}", option=option, value=name
            )
        names.append(by_case[name.lower()])
    return names
