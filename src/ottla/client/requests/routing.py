"""Where the items of a request go now: routes, metadata and coordinators put together.

The result may be wrong in the next moment: a request that finds out says so with `RetryState.refresh` or `forget`,
and looks again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from ottla.client.metadata import ClusterView, Metadata
from ottla.client.requests.attempt import NO_BROKER, RequestSender
from ottla.client.requests.coordinators import Coordinators, CoordinatorType
from ottla.client.requests.sharding import Destination, ItemKey, Route
from ottla.client.topic_partition import TopicPartition
from ottla.errors import (
    KafkaError,
    LeaderNotAvailableError,
    NoSuchPartitionError,
    UnknownBrokerError,
    UnknownTopicOrPartitionError,
    from_code,
)
from ottla.wire.resources import ConfigResourceType

_BROKER_RESOURCES: Final = (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)

_COORDINATORS: Final = {
    Destination.GROUP: CoordinatorType.GROUP,
    Destination.TRANSACTION: CoordinatorType.TRANSACTION,
}


@dataclass(slots=True)
class RetryState:
    """What the attempts so far have shown, for one part of a request."""

    attempts: int = 0
    missing: int = 0
    """How often a topic, a partition or a broker was not there."""
    refresh: bool = False
    """What is known of leaders and the controller may be out of date."""
    avoid: int | None = None
    """The broker that gave no response the last time."""
    unsure: KafkaError | None = None
    """The last attempt whose outcome is unknown: it may have been carried out."""

    last: KafkaError | None = None
    """What went wrong the last time."""

    def branch(self) -> RetryState:
        """The state of a part of these items, which goes its own way from here."""
        return replace(self)


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """Items that go to the same broker."""

    keys: list[ItemKey]
    broker: int | None
    """None stands for any."""
    error: KafkaError | None = None
    """Why they can go nowhere now."""


class Routing:
    """Finds the targets."""

    def __init__(self, sender: RequestSender, metadata: Metadata) -> None:
        self._metadata = metadata
        self.coordinators = Coordinators(sender)

    async def targets(
        self, route: Route, keys: Sequence[ItemKey], retry_state: RetryState
    ) -> list[RequestTarget]:
        """At least one; the items in the order in which the request names them."""
        refresh, retry_state.refresh = retry_state.refresh, False
        destination = route.destination
        if destination is Destination.LEADER:
            return await self._by_leader(keys, refresh)
        if destination in _COORDINATORS:
            # Where coordinators are is not metadata's to say; only a broker that it has not named yet is.
            await self.brokers_known(0.0 if isinstance(retry_state.last, UnknownBrokerError) else None)
            return await self._by_coordinator(_COORDINATORS[destination], keys)
        if refresh or destination is Destination.RESOURCE:
            await self.brokers_known(0.0 if refresh else None)
        if destination is Destination.CONTROLLER:
            return [RequestTarget(list(keys), self._controller(retry_state))]
        if destination is Destination.RESOURCE:
            return _grouped([(key, _broker_of_resource(key)) for key in keys])
        if destination is Destination.EVERY:
            return [RequestTarget([key], key if isinstance(key, int) else None) for key in keys]
        return [RequestTarget(list(keys), None)]

    async def brokers_known(self, max_age: float | None = None) -> ClusterView:
        """The view of the cluster, once a broker has said who the others are."""
        if max_age is None:
            return self._metadata.view if self._metadata.view.brokers else await self._metadata.fresh([])
        return await self._metadata.fresh([], max_age=max_age)

    @property
    def view(self) -> ClusterView:
        """What is known of the cluster now."""
        return self._metadata.view

    @property
    def failure(self) -> KafkaError | None:
        """Why there is no metadata, if there is none."""
        return self._metadata.failure()

    def failed(self, route: Route, keys: Sequence[ItemKey]) -> None:
        """These items got no good response where they went: forget what led there."""
        if route.destination in _COORDINATORS:
            for key in keys:
                self.coordinators.forget(_COORDINATORS[route.destination], str(key))

    def _controller(self, retry_state: RetryState) -> int | None:
        # Brokers of today forward to the controller, so any will do where the one that is named does not.
        view = self._metadata.view
        known = view.controller_id in view.brokers and view.controller_id != retry_state.avoid
        return view.controller_id if known else None

    async def _by_leader(self, keys: Sequence[ItemKey], refresh: bool) -> list[RequestTarget]:
        partitions = [key for key in keys if isinstance(key, TopicPartition)]
        topics = list(dict.fromkeys(partition.topic for partition in partitions))
        view = await (self._metadata.fresh(topics, max_age=0.0) if refresh else self._metadata.fresh(topics))
        return _grouped([(partition, _leader(view, partition)) for partition in partitions])

    async def _by_coordinator(self, kind: CoordinatorType, keys: Sequence[ItemKey]) -> list[RequestTarget]:
        found = await self.coordinators.find(kind, [str(key) for key in keys])
        return _grouped([(key, found[str(key)]) for key in keys])


def _leader(view: ClusterView, key: TopicPartition) -> int | KafkaError:
    topic = view.topics.get(key.topic)
    if topic is None:
        return UnknownTopicOrPartitionError(topic=key.topic, partition=key.partition)
    if topic.error_code:
        error = from_code(topic.error_code, topic=key.topic, partition=key.partition)
        assert error is not None
        return error
    if not 0 <= key.partition < len(topic.partitions):
        return NoSuchPartitionError(
            topic=key.topic, partition=key.partition, partitions=len(topic.partitions)
        )
    leader = topic.partitions[key.partition].leader
    if leader == NO_BROKER:
        return LeaderNotAvailableError(topic=key.topic, partition=key.partition)
    return leader


def _broker_of_resource(key: ItemKey) -> int | KafkaError | None:
    assert isinstance(key, tuple)
    kind, name = key
    if kind not in _BROKER_RESOURCES or not name:
        return None  # a topic, or the default of all brokers
    try:
        return int(name)
    except ValueError:
        return UnknownBrokerError(f"brokers have numbers, and {name!r} is none")


def _grouped(routed: Sequence[tuple[ItemKey, int | KafkaError | None]]) -> list[RequestTarget]:
    """One target for each broker; one for each kind of error."""
    by_target: dict[object, RequestTarget] = {}
    for key, where in routed:
        error = where if isinstance(where, KafkaError) else None
        group: object = where if error is None else (type(error), str(error))
        if group not in by_target:
            by_target[group] = RequestTarget([], None if isinstance(where, KafkaError) else where, error)
        by_target[group].keys.append(key)
    return list(by_target.values())
