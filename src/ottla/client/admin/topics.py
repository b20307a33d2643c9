"""Topics: create, delete, list, describe, add partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from ottla.client.admin.base import AdminBase
from ottla.client.admin.configs import config_text
from ottla.client.admin.results import (
    CreatedTopic,
    Errors,
    NewTopic,
    PartitionDescription,
    Results,
    TopicDescription,
    in_order,
)
from ottla.client.deadline import Deadline
from ottla.client.metadata import ClusterView, PartitionView, TopicView
from ottla.errors import ApiTimeoutError, KafkaError, UnknownTopicOrPartitionError
from ottla.wire import ZERO_UUID
from ottla.wire.messages import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
)

_NO_LEADER: Final = -1
_BROKERS_DEFAULT: Final = -1


class TopicsAdmin(AdminBase):
    """What can be done to topics."""

    async def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        *,
        configs: Mapping[str, object] | None = None,
        assignments: Mapping[int, Iterable[int]] | None = None,
        validate_only: bool = False,
        wait: bool = True,
        timeout: float | None = None,
    ) -> CreatedTopic:
        """Creates a topic; -1 leaves a number to the brokers' configs.

            await kafka.admin.create_topic("orders", partitions=6, configs={"retention.ms": 60_000})

        Brokers hear of a new topic one after the other; with `wait` this returns when metadata shows it with its
        leaders. With `validate_only` nothing is created. `assignments` names the brokers of each partition.
        """
        topic = NewTopic(name, partitions, replication_factor, configs or {}, assignments)
        created = await self.create_topics([topic], validate_only=validate_only, wait=wait, timeout=timeout)
        return created[name]

    async def create_topics(
        self,
        topics: Iterable[str | NewTopic],
        *,
        validate_only: bool = False,
        wait: bool = True,
        errors: Errors = "raise",
        timeout: float | None = None,
    ) -> Results[str, CreatedTopic]:
        """Creates topics, in one request; what came of each, by name.

        await kafka.admin.create_topics(["audit", NewTopic("orders", 6)])
        """
        deadline = self._deadline(timeout)
        new_topics = [NewTopic(topic) if isinstance(topic, str) else topic for topic in topics]
        request = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in new_topics],
            timeout_ms=self._timeout_ms(timeout),
            validate_only=validate_only,
        )
        results = await self._send_each(request, timeout, _created_items, _created)
        if wait and results and not validate_only:
            await self._until(list(results), "created", _has_leaders, deadline)
        return results.checked(errors)

    async def delete_topic(self, name: str, *, wait: bool = True, timeout: float | None = None) -> None:
        """Deletes a topic; with `wait`, returns when metadata no longer shows it."""
        await self.delete_topics([name], wait=wait, timeout=timeout)

    async def delete_topics(
        self,
        names: Iterable[str],
        *,
        wait: bool = True,
        errors: Errors = "raise",
        timeout: float | None = None,
    ) -> Results[str, None]:
        """Deletes topics, in one request; what came of each, by name."""
        deadline = self._deadline(timeout)
        request = DeleteTopicsRequest(
            topics=[DeleteTopicsRequest.DeleteTopicState(name=name) for name in _names(names)],
            timeout_ms=self._timeout_ms(timeout),
        )
        results = await self._send_each(request, timeout, _deleted_items, _nothing)
        if wait and results:
            await self._until(list(results), "deleted", _is_gone, deadline)
        return results.checked(errors)

    async def list_topics(
        self, *, internal: bool = False, timeout: float | None = None
    ) -> dict[str, TopicDescription]:
        """All topics by name, with their partitions; internal ones only on demand."""
        view = await self._metadata.fresh(None, max_age=0.0, timeout=timeout)
        return {
            name: _described(view.topics[name])
            for name in sorted(view.topics)
            if not view.topics[name].error_code and (internal or not view.topics[name].internal)
        }

    async def describe_topic(self, name: str, *, timeout: float | None = None) -> TopicDescription:
        """A topic and its partitions."""
        return (await self.describe_topics([name], timeout=timeout))[name]

    async def describe_topics(
        self, names: Iterable[str], *, errors: Errors = "raise", timeout: float | None = None
    ) -> Results[str, TopicDescription]:
        """Topics and their partitions, by name."""
        requested = _names(names)
        known = await self._topics(requested, self._deadline(timeout), max_age=0.0)
        found = {name: _described(topic) for name, topic in known.items() if isinstance(topic, TopicView)}
        failed = {name: error for name, error in known.items() if isinstance(error, KafkaError)}
        return in_order(requested, found, failed).checked(errors)

    async def create_partitions(
        self,
        topic: str,
        total: int,
        *,
        assignments: Sequence[Iterable[int]] | None = None,
        validate_only: bool = False,
        wait: bool = True,
        timeout: float | None = None,
    ) -> None:
        """Adds partitions to a topic until it has `total`; keys that are hashed may move to others then.

        `assignments` names the brokers of each new partition, the preferred leader first.
        """
        deadline = self._deadline(timeout)
        assigned = CreatePartitionsRequest.CreatePartitionsAssignment
        new = CreatePartitionsRequest.CreatePartitionsTopic(
            name=topic,
            count=total,
            assignments=None
            if assignments is None
            else [assigned(broker_ids=list(brokers)) for brokers in assignments],
        )
        request = CreatePartitionsRequest(
            topics=[new], timeout_ms=self._timeout_ms(timeout), validate_only=validate_only
        )
        (await self._send_each(request, timeout, _partitions_items, _nothing)).checked("raise")
        if wait and not validate_only:

            def grown(view: TopicView | None) -> bool:
                return _has_leaders(view) and view is not None and len(view.partitions) >= total

            await self._until([topic], "given its partitions", grown, deadline)

    async def _until(
        self,
        names: Sequence[str],
        what: str,
        reached: Callable[[TopicView | None], bool],
        deadline: Deadline,
    ) -> None:
        """Until metadata shows of all these topics what was done to them."""
        attempt, waiting = 0, list(names)
        while True:
            try:
                view: ClusterView = await self._metadata.fresh(waiting, max_age=0.0, timeout=deadline.left())
            except ApiTimeoutError as error:
                raise _not_shown(waiting, what, deadline) from error
            waiting = [name for name in waiting if not reached(view.topics.get(name))]
            if not waiting:
                return
            delay = self._backoff.delay(attempt)
            if delay >= deadline.left():
                raise _not_shown(waiting, what, deadline)
            await self._runtime.clock.sleep(delay)
            attempt += 1


def _not_shown(names: Sequence[str], what: str, deadline: Deadline) -> ApiTimeoutError:
    return ApiTimeoutError(
        f"{', '.join(names)} has been {what}, but metadata did not show it within {deadline.seconds:g} s"
        " (timeout, default_api_timeout_ms); wait=False does not wait for that"
    )


def _names(names: Iterable[str]) -> list[str]:
    if isinstance(names, str):
        raise TypeError(f"a list of topics is meant, not {names!r}: write [{names!r}]")
    return list(dict.fromkeys(names))


def _creatable(topic: NewTopic) -> CreateTopicsRequest.CreatableTopic:
    by_hand = topic.assignments is not None
    assigned = CreateTopicsRequest.CreatableReplicaAssignment
    return CreateTopicsRequest.CreatableTopic(
        name=topic.name,
        # Kafka refuses numbers beside assignments.
        num_partitions=_BROKERS_DEFAULT if by_hand else topic.partitions,
        replication_factor=_BROKERS_DEFAULT if by_hand else topic.replication_factor,
        assignments=[
            assigned(partition_index=index, broker_ids=list(brokers))
            for index, brokers in (topic.assignments or {}).items()
        ],
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=name, value=config_text(value))
            for name, value in topic.configs.items()
        ],
    )


def _created_items(response: Any) -> Iterable[tuple[str, Any, int, str | None]]:
    return [(topic.name, topic, topic.error_code, topic.error_message) for topic in response.topics]


def _deleted_items(response: Any) -> Iterable[tuple[str, Any, int, str | None]]:
    return [(topic.name, topic, topic.error_code, topic.error_message) for topic in response.responses]


def _partitions_items(response: Any) -> Iterable[tuple[str, Any, int, str | None]]:
    return [(topic.name, topic, topic.error_code, topic.error_message) for topic in response.results]


def _created(name: str, topic: CreateTopicsResponse.CreatableTopicResult) -> CreatedTopic:
    return CreatedTopic(
        name=name,
        topic_id=None if topic.topic_id == ZERO_UUID else topic.topic_id,
        partitions=None if topic.num_partitions < 0 else topic.num_partitions,
        replication_factor=None if topic.replication_factor < 0 else topic.replication_factor,
        configs={config.name: config.value for config in topic.configs or ()},
    )


def _nothing(key: object, item: object) -> None:
    return None


def _has_leaders(topic: TopicView | None) -> bool:
    return (
        topic is not None
        and not topic.error_code
        and all(partition.leader != _NO_LEADER for partition in topic.partitions)
    )


def _is_gone(topic: TopicView | None) -> bool:
    return topic is None or topic.error_code == UnknownTopicOrPartitionError.code


def _described(topic: TopicView) -> TopicDescription:
    return TopicDescription(
        name=topic.name,
        topic_id=None if topic.topic_id == ZERO_UUID else topic.topic_id,
        internal=topic.internal,
        partitions=tuple(_described_partition(partition) for partition in topic.partitions),
    )


def _described_partition(partition: PartitionView) -> PartitionDescription:
    return PartitionDescription(
        partition=partition.index,
        leader=None if partition.leader == _NO_LEADER else partition.leader,
        leader_epoch=partition.leader_epoch,
        replicas=partition.replicas,
        isr=partition.isr,
        offline=partition.offline,
    )
