"""DescribeConfigs: which resources there are; what is said of each is tested with configs/describe.py."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.broker import Cluster
from ottla.wire.messages import DescribeConfigsRequest, DescribeConfigsResponse
from tests.broker.handlers.requests import send

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = (2, 4, 8, 16, 32)
Result = DescribeConfigsResponse.DescribeConfigsResult


def describe(
    cluster: Cluster, *resources: tuple[int, str], keys: list[str] | None = None, version: int = 4
) -> list[Result]:
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsRequest.DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=keys
            )
            for kind, name in resources
        ],
        include_synonyms=True,
    )
    results = send(cluster, request, version, DescribeConfigsResponse).results
    assert [(result.resource_type, result.resource_name) for result in results] == list(resources)
    return results


def values(result: Result) -> dict[str, tuple[str | None, int]]:
    """Value and source by name."""
    assert result.error_code == 0, result
    return {config.name: (config.value, config.config_source) for config in result.configs}


@pytest.mark.parametrize("version", range(1, 5))
def test_a_topic_has_what_was_set_and_the_defaults_for_the_rest(
    kafka: Cluster, new_topic: Callable[..., str], version: int
) -> None:
    (result,) = describe(kafka, (TOPIC, new_topic(kafka, retention_ms="5000")), version=version)
    found = values(result)
    assert found["retention.ms"] == ("5000", 1)
    assert found["cleanup.policy"] == ("delete", 5)


def test_only_the_keys_that_are_named_are_described(kafka: Cluster, new_topic: Callable[..., str]) -> None:
    (result,) = describe(kafka, (TOPIC, new_topic(kafka)), keys=["retention.ms", "nope"])
    assert list(values(result)) == ["retention.ms"]


def test_topics_that_are_not_there_have_errors_of_their_own(
    kafka: Cluster, new_topic: Callable[..., str]
) -> None:
    unknown, impossible, good = describe(kafka, (TOPIC, "nowhere"), (TOPIC, "b b"), (TOPIC, new_topic(kafka)))
    assert (unknown.error_code, unknown.configs) == (3, [])
    assert impossible.error_code == 17
    assert (impossible.error_message or "").startswith("Topic name is invalid: 'b b' contains")
    assert good.error_code == 0


def test_a_broker_describes_itself_and_no_other(kafka: Cluster) -> None:
    itself, other, nobody = describe(kafka, (BROKER, "1"), (BROKER, "2"), (BROKER, "x"))
    assert values(itself)["broker.id"][0] == "1"
    assert (other.error_code, other.error_message) == (
        42,
        "Unexpected broker id, expected 1 or empty string, but received 2",
    )
    assert (nobody.error_code, nobody.error_message) == (42, "Broker id must be an integer, but it is: x")


def test_what_was_set_for_all_brokers_is_described_without_a_name(kafka: Cluster) -> None:
    (defaults,) = describe(kafka, (BROKER, ""))
    assert defaults.error_code == 0


def test_the_loggers_of_a_broker_have_levels(kafka: Cluster) -> None:
    (loggers, nameless) = describe(kafka, (BROKER_LOGGER, "1"), (BROKER_LOGGER, ""))
    assert values(loggers)["root"] == ("INFO", 6)
    assert (nameless.error_code, nameless.error_message) == (42, "Broker id must not be empty")


def test_groups_and_client_metrics_have_configs_whether_or_not_they_exist(kafka: Cluster) -> None:
    group, metrics, nameless = describe(kafka, (GROUP, "g"), (CLIENT_METRICS, "m"), (GROUP, ""))
    assert values(group)["consumer.session.timeout.ms"] == ("45000", 5)
    assert values(metrics)["interval.ms"] == ("300000", 5)
    assert (nameless.error_code, nameless.error_message) == (42, "Group name must not be empty")


def test_an_unknown_kind_refuses_the_whole_request(kafka: Cluster, new_topic: Callable[..., str]) -> None:
    results = describe(kafka, (99, "x"), (TOPIC, new_topic(kafka)))
    assert [(result.error_code, result.configs) for result in results] == [(42, []), (42, [])]
    assert (results[0].error_message or "").startswith("This most likely occurs because")
