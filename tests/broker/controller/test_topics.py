"""Codes and sentences are those that Apache Kafka 4.3.1 answers."""

from collections.abc import Sequence

import pytest

from ottla.broker.metadata.records import ConfigRecord, PartitionRecord, TopicRecord
from ottla.errors import PolicyViolationError, RequestTimedOutError
from ottla.wire import ZERO_UUID
from ottla.wire.messages import CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.resources import ConfigResourceType
from tests.broker.controller.support import Controller, assignment, state_of

INVALID_TOPIC_EXCEPTION = 17
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_REPLICATION_FACTOR = 38
INVALID_REPLICA_ASSIGNMENT = 39
INVALID_CONFIG = 40
INVALID_REQUEST = 42


def outcome(result: CreateTopicsResponse.CreatableTopicResult) -> tuple[int, str | None]:
    return result.error_code, result.error_message


def create_all(controller: Controller, *names: str) -> dict[str, tuple[int, str | None]]:
    topics = [
        CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        for name in names
    ]
    response = controller.carry_out(controller.state.create_topics(CreateTopicsRequest(topics=topics), 7))
    assert len(response.topics) == len(set(names))
    return {result.name: outcome(result) for result in response.topics}


def test_a_topic_is_made_of_itself_then_its_configs_then_its_partitions() -> None:
    controller = Controller([1])
    before = len(controller.log)
    controller.create("t", partitions=2, replication_factor=1, configs={"retention.ms": "5"})
    topic_id = controller.topic_id("t")
    assert controller.log[before:] == [
        TopicRecord("t", topic_id),
        ConfigRecord(ConfigResourceType.TOPIC, "t", "retention.ms", "5"),
        PartitionRecord(topic_id, 0, (1,), (1,), leader=1),
        PartitionRecord(topic_id, 1, (1,), (1,), leader=1),
    ]


def test_the_answer_describes_the_topic_from_version_5_on() -> None:
    controller = Controller([1, 2])
    result = controller.create("t", partitions=3, replication_factor=2, configs={"retention.ms": "5"})
    assert outcome(result) == (0, None)
    assert result.topic_id == controller.topic_id("t") != ZERO_UUID
    assert (result.num_partitions, result.replication_factor) == (3, 2)
    assert result.topic_config_error_code == 0
    assert [(config.name, config.value) for config in result.configs or []] == [("retention.ms", "5")]

    result = controller.create("old", partitions=3, replication_factor=2, version=4)
    assert (result.num_partitions, result.replication_factor, result.configs) == (-1, -1, [])


def test_the_description_includes_the_clusters_own_defaults() -> None:
    controller = Controller([1])
    controller.commit([ConfigRecord(ConfigResourceType.BROKER, "", "log.retention.ms", "7")])
    result = controller.create("t")
    assert [config.name for config in result.configs or []] == ["log.retention.ms"]


def test_minus_one_stands_for_the_cluster_defaults() -> None:
    controller = Controller([1, 2, 3], num_partitions=4, default_replication_factor=3)
    result = controller.create("t")
    assert (result.num_partitions, result.replication_factor) == (4, 3)


def test_topic_ids_are_random_and_of_version_4() -> None:
    controller = Controller([1])
    ids = {controller.create(f"t{number}").topic_id for number in range(200)}
    assert len(ids) == 200
    for topic_id in ids:
        assert topic_id[6] >> 4 == 4
        assert topic_id[8] >> 6 == 2
        assert not str(topic_id).startswith("-")


def test_validate_only_answers_the_same_and_changes_nothing() -> None:
    controller = Controller([1])
    before = len(controller.log)
    result = controller.create("t", partitions=3, replication_factor=1, validate_only=True)
    assert (outcome(result), result.num_partitions) == ((0, None), 3)
    assert controller.create("t", partitions=0, validate_only=True).error_code == INVALID_PARTITIONS
    assert len(controller.log) == before


def test_a_manual_assignment_says_where_everything_is() -> None:
    controller = Controller([1, 2, 3])
    result = controller.create("t", [[3, 1], [2, 3]])
    assert (result.num_partitions, result.replication_factor) == (2, 2)
    assert state_of(controller.partition("t", 0)) == (3, (3, 1))
    assert state_of(controller.partition("t", 1)) == (2, (2, 3))


def test_a_fenced_replica_is_not_in_sync_with_a_new_partition() -> None:
    controller = Controller([1, 2, 3])
    controller.fence(3)
    controller.create("t", [[3, 1, 2]])
    assert state_of(controller.partition("t")) == (1, (1, 2))


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b"])
def test_a_bad_name_is_refused(name: str) -> None:
    code, sentence = outcome(Controller([1]).create(name))
    assert code == INVALID_TOPIC_EXCEPTION
    assert sentence is not None
    assert sentence.startswith("Topic name is invalid: ")


def test_a_topic_that_exists_is_refused_whatever_else_is_wrong() -> None:
    controller = Controller([1])
    controller.create("a")
    result = controller.create("a", partitions=0, replication_factor=0, configs={"x": None})
    assert outcome(result) == (TOPIC_ALREADY_EXISTS, "Topic 'a' already exists.")
    assert result.topic_id == ZERO_UUID


def test_a_name_that_collides_with_a_topic_is_refused() -> None:
    controller = Controller([1])
    controller.create("x.y")
    assert create_all(controller, "x_y", "x.y", "x-y") == {
        "x_y": (INVALID_TOPIC_EXCEPTION, "Topic 'x_y' collides with existing topic: x.y"),
        "x.y": (TOPIC_ALREADY_EXISTS, "Topic 'x.y' already exists."),
        "x-y": (0, None),
    }


def test_two_names_that_collide_get_in_by_one_request() -> None:
    assert create_all(Controller([1]), "q.y", "q_y") == {"q.y": (0, None), "q_y": (0, None)}


def test_a_name_that_is_asked_for_twice_is_refused_once_after_the_others() -> None:
    answers = create_all(Controller([1]), "z", "z", "zz", "z")
    assert list(answers.items()) == [("zz", (0, None)), ("z", (INVALID_REQUEST, "Duplicate topic name."))]


def test_the_metadata_topic_cannot_be_created() -> None:
    assert create_all(Controller([1]), "__cluster_metadata") == {
        "__cluster_metadata": (
            INVALID_REQUEST,
            "Creation of internal topic __cluster_metadata is prohibited.",
        )
    }


@pytest.mark.parametrize(
    ("partitions", "replication_factor", "expected"),
    [
        (0, 1, (INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")),
        (-2, 1, (INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")),
        (
            1,
            0,
            (
                INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            ),
        ),
        (
            0,
            -2,
            (
                INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            ),
        ),
        (
            1,
            9,
            (
                INVALID_REPLICATION_FACTOR,
                "Unable to replicate the partition 9 time(s): The target replication factor of 9 cannot be "
                "reached because only 1 broker(s) are registered or some brokers have all their log "
                "directories cordoned.",
            ),
        ),
    ],
)
def test_bad_numbers_are_refused(partitions: int, replication_factor: int, expected: tuple[int, str]) -> None:
    result = Controller([1]).create("t", partitions=partitions, replication_factor=replication_factor)
    assert outcome(result) == expected


def test_without_a_live_broker_there_is_no_topic() -> None:
    controller = Controller([1])
    controller.fence(1)
    assert outcome(controller.create("t")) == (
        INVALID_REPLICATION_FACTOR,
        "Unable to replicate the partition 1 time(s): All brokers are currently fenced, or have all their log "
        "directories cordoned.",
    )


@pytest.mark.parametrize(
    ("assignments", "sentence"),
    [
        ([(0, [])], "The manual partition assignment includes an empty replica list."),
        (
            [(0, [77])],
            "The manual partition assignment includes broker 77, but no such broker is registered.",
        ),
        ([(0, [1, 1])], "The manual partition assignment includes the broker 1 more than once."),
        ([(1, [1])], "partitions should be a consecutive 0-based integer sequence"),
        ([(-1, [1])], "partitions should be a consecutive 0-based integer sequence"),
        ([(0, [1]), (0, [1])], "Found multiple manual partition assignments for partition 0"),
        (
            [(0, [1]), (1, [1, 2])],
            "The manual partition assignment includes a partition with 2 replica(s), but this is not "
            "consistent with previous partitions, which have 1 replica(s).",
        ),
        (
            [(0, [3])],
            "All brokers specified in the manual partition assignment for partition 0 are fenced or in "
            "controlled shutdown.",
        ),
    ],
)
def test_a_bad_manual_assignment_is_refused(
    assignments: Sequence[tuple[int, list[int]]], sentence: str
) -> None:
    controller = Controller([1, 2, 3])
    controller.fence(3)
    topic = CreateTopicsRequest.CreatableTopic(
        name="t",
        num_partitions=-1,
        replication_factor=-1,
        assignments=[assignment(index, replicas) for index, replicas in assignments],
    )
    decision = controller.state.create_topics(CreateTopicsRequest(topics=[topic]), 7)
    assert outcome(decision.response.topics[0]) == (INVALID_REPLICA_ASSIGNMENT, sentence)
    assert decision.records == []


@pytest.mark.parametrize(("replication_factor", "what"), [(1, "replication factor"), (-1, "numPartitions")])
def test_an_assignment_leaves_nothing_else_to_say(replication_factor: int, what: str) -> None:
    result = Controller([1]).create("t", [[1]], partitions=1, replication_factor=replication_factor)
    assert outcome(result) == (
        INVALID_REQUEST,
        f"A manual partition assignment was specified, but {what} was not set to -1.",
    )


def test_a_config_without_a_value_is_refused() -> None:
    result = Controller([1]).create("t", configs={"retention.ms": None, "a": "1", "b": None})
    assert outcome(result) == (
        INVALID_CONFIG,
        "Null value not supported for topic configs: retention.ms,b",
    )


def test_bad_configs_are_noticed_before_bad_numbers() -> None:
    result = Controller([1]).create("t", partitions=0, configs={"nope": "1"})
    assert outcome(result) == (INVALID_CONFIG, "Unknown topic config name: nope")


def test_too_many_partitions_fail_the_whole_request() -> None:
    controller = Controller([1])
    topics = [
        CreateTopicsRequest.CreatableTopic(name="huge", num_partitions=9_995, replication_factor=1),
        CreateTopicsRequest.CreatableTopic(name="default", num_partitions=-1, replication_factor=-1),
        CreateTopicsRequest.CreatableTopic(
            name="manual", num_partitions=-1, replication_factor=-1, assignments=[assignment(0, [1])]
        ),
    ]
    fits = controller.state.create_topics(CreateTopicsRequest(topics=topics), 7).response
    assert {result.error_code for result in fits.topics} == {0}
    topics[0].num_partitions = 9_999
    with pytest.raises(PolicyViolationError, match="Excessively large number of partitions per request"):
        controller.state.create_topics(CreateTopicsRequest(topics=topics), 7)


def test_the_same_seed_makes_the_same_topics() -> None:
    logs = []
    for _ in range(2):
        controller = Controller([1, 2, 3], seed=11)
        controller.create("t", partitions=20, replication_factor=2)
        logs.append(controller.log)
    assert logs[0] == logs[1]


def test_too_many_records_fail_the_whole_request() -> None:
    def asked(*partitions: int) -> CreateTopicsRequest:
        topics = [
            CreateTopicsRequest.CreatableTopic(name=f"t{index}", num_partitions=count, replication_factor=1)
            for index, count in enumerate(partitions)
        ]
        return CreateTopicsRequest(topics=topics, validate_only=True)

    controller = Controller([1])
    assert controller.state.create_topics(asked(9_999), 7).response.topics[0].error_code == 0
    for partitions in ([10_000], [9_998, 1]):
        with pytest.raises(PolicyViolationError, match="Unable to perform excessively large batch operation"):
            controller.state.create_topics(asked(*partitions), 7)


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_without_time_nothing_is_made(timeout_ms: int) -> None:
    controller = Controller([1])
    topic = CreateTopicsRequest.CreatableTopic(name="a b", num_partitions=1, replication_factor=1)
    with pytest.raises(RequestTimedOutError):
        controller.state.create_topics(CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms), 7)
    twice = CreateTopicsRequest(topics=[topic, topic], timeout_ms=timeout_ms)
    (result,) = controller.state.create_topics(twice, 7).response.topics
    assert outcome(result) == (INVALID_REQUEST, "Duplicate topic name.")
