"""What altering does beyond the answers on record (test_recorded.py): whole requests, limits, and its two halves."""

from __future__ import annotations

import pytest

from ottla.broker.configs import BrokerConfigs, BrokerLoggers, alter, incremental_alter, preprocess
from ottla.errors import InvalidConfigError, InvalidRequestError
from ottla.wire.messages import AlterConfigsRequest, IncrementalAlterConfigsRequest
from ottla.wire.resources import ConfigOperation, ConfigResourceType

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
BROKER = BrokerConfigs(node_id=1)


def changing(
    kind: int, name: str, *changes: tuple[str, int, str | None]
) -> IncrementalAlterConfigsRequest.AlterConfigsResource:
    return IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            IncrementalAlterConfigsRequest.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ],
    )


def replacing(kind: int, name: str, **configs: str) -> AlterConfigsRequest.AlterConfigsResource:
    return AlterConfigsRequest.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            AlterConfigsRequest.AlterableConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )


def test_a_resource_that_appears_twice_is_refused_each_time_and_spares_the_others() -> None:
    twice = changing(ConfigResourceType.TOPIC, "a", ("retention.ms", SET, "1"))
    once = changing(ConfigResourceType.TOPIC, "b", ("retention.ms", SET, "1"))
    first, other, second = preprocess([twice, once, twice], BROKER, BrokerLoggers())
    for refused in (first, second):
        assert isinstance(refused, InvalidRequestError)
        assert refused.message == "Each resource must appear at most once."
    assert other is None


def test_a_broker_sees_only_to_the_form_of_what_the_controller_decides() -> None:
    wrong_value = changing(ConfigResourceType.TOPIC, "a", ("retention.ms", SET, "never"))
    wrong_form = changing(ConfigResourceType.TOPIC, "b", ("retention.ms", SET, None))
    first, second = preprocess([wrong_value, wrong_form], BROKER, BrokerLoggers())
    assert first is None
    assert isinstance(second, InvalidRequestError)


def test_a_broker_looks_at_a_change_on_top_of_what_it_has() -> None:
    broker = BrokerConfigs(node_id=1)
    broker.set_dynamic({"num.io.threads": "16"}, {})
    doubled = changing(ConfigResourceType.BROKER, "1", ("num.io.threads", SET, "32"))
    assert preprocess([doubled], broker, BrokerLoggers()) == [None]
    (refused,) = preprocess([doubled], BROKER, BrokerLoggers())
    assert isinstance(refused, InvalidRequestError)


def test_the_controller_looks_at_a_change_on_top_of_what_the_broker_has() -> None:
    doubled = changing(ConfigResourceType.BROKER, "7", ("num.io.threads", SET, "32"))
    assert incremental_alter(doubled, {"num.io.threads": "16"}, BROKER) == {"num.io.threads": "32"}
    with pytest.raises(InvalidRequestError, match="not be greater than double the current value 8"):
        incremental_alter(doubled, {}, BROKER)


def test_what_is_not_named_stays() -> None:
    current = {"retention.ms": "5", "segment.ms": "6"}
    resource = changing(ConfigResourceType.TOPIC, "a", ("retention.ms", DELETE, None), ("flush.ms", SET, "7"))
    assert incremental_alter(resource, current, BROKER) == {"segment.ms": "6", "flush.ms": "7"}
    assert current == {"retention.ms": "5", "segment.ms": "6"}


def test_replacing_drops_what_is_not_named() -> None:
    resource = replacing(ConfigResourceType.TOPIC, "a", flush_ms="7")
    assert alter(resource, {"retention.ms": "5"}, BROKER) == {"flush.ms": "7"}


def test_what_a_topic_has_already_counts_for_the_rules() -> None:
    resource = changing(ConfigResourceType.TOPIC, "a", ("max.compaction.lag.ms", SET, "5"))
    with pytest.raises(InvalidConfigError, match="conflict topic config setting"):
        incremental_alter(resource, {"min.compaction.lag.ms": "6"}, BROKER)


def test_a_list_cannot_grow_beyond_what_a_string_holds() -> None:
    name = "leader.replication.throttled.replicas"
    current = {name: ",".join(f"{partition}:1" for partition in range(5000))}
    more = ",".join(f"{partition}:2" for partition in range(5000))
    with pytest.raises(InvalidConfigError) as refused:
        incremental_alter(changing(ConfigResourceType.TOPIC, "a", (name, APPEND, more)), current, BROKER)
    assert refused.value.message == (
        "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes."
    )


def test_the_size_of_the_isr_is_free_without_eligible_leader_replicas() -> None:
    resource = changing(ConfigResourceType.BROKER, "1", ("min.insync.replicas", SET, "2"))
    assert incremental_alter(resource, {}, BROKER) == {"min.insync.replicas": "2"}
    with pytest.raises(InvalidConfigError):
        incremental_alter(resource, {}, BROKER, elr=True)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("x", "Unable to parse broker name as a base 10 number."), ("-1", "Invalid negative broker ID.")],
)
def test_the_controller_knows_no_broker_of_such_a_name(name: str, sentence: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        incremental_alter(changing(ConfigResourceType.BROKER, name), {}, BROKER)
    assert refused.value.message == sentence


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("4", "1", "Log cleaner threads cannot be reduced to less than half the current value 4"),
        ("1", "3", "Log cleaner threads cannot be increased to more than double the current value 1"),
    ],
)
def test_cleaner_threads_come_and_go_by_half(old: str, new: str, sentence: str) -> None:
    resource = changing(ConfigResourceType.BROKER, "1", ("log.cleaner.threads", SET, new))
    with pytest.raises(InvalidRequestError) as refused:
        incremental_alter(resource, {"log.cleaner.threads": old}, BROKER)
    assert refused.value.message == (
        f"Invalid value org.apache.kafka.common.config.ConfigException: {sentence} "
        "for configuration Invalid dynamic configuration"
    )


def test_a_kind_that_the_controller_does_not_keep_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="Unknown resource type 8"):
        incremental_alter(changing(ConfigResourceType.BROKER_LOGGER, "1"), {}, BROKER)


def test_loggers_are_not_for_the_old_request() -> None:
    (refused,) = preprocess(
        [replacing(ConfigResourceType.BROKER_LOGGER, "1", root="INFO")], BROKER, BrokerLoggers()
    )
    assert isinstance(refused, InvalidRequestError)
    assert refused.message == "Unknown resource type 8"
