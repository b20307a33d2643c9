"""What describing does beyond the answers on record (test_recorded.py): errors, and what is left out."""

from __future__ import annotations

import pytest

from ottla.broker.configs import BrokerConfigs, BrokerLoggers, Overrides, TopicConfigs, describe
from ottla.broker.configs.describe import DescribeOptions, describe_broker, describe_loggers, describe_topic
from ottla.wire import decode_response, encode_response
from ottla.wire.apis import api_named
from ottla.wire.messages import DescribeConfigsRequest, DescribeConfigsResponse
from ottla.wire.resources import ConfigResourceType

BROKER = BrokerConfigs({"message.max.bytes": 2000, "delegation.token.secret.key": "secret"}, node_id=1)


class Known:
    """A node with one topic and one group."""

    config = BROKER
    loggers = BrokerLoggers(["a"])

    def topic_configs_or_none(self, topic: str) -> TopicConfigs | None:
        return TopicConfigs({"retention.ms": "5"}, BROKER) if topic == "orders" else None

    def config_overrides(self, resource_type: int, resource_name: str) -> Overrides:
        known: dict[tuple[int, str], Overrides] = {
            (32, "readers"): {"share.isolation.level": "read_committed"}
        }
        return known.get((resource_type, resource_name), {})


def ask(kind: int, name: str, keys: list[str] | None = None) -> DescribeConfigsResponse.DescribeConfigsResult:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    (result,) = describe(DescribeConfigsRequest(resources=[resource]), Known())
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


@pytest.mark.parametrize(
    ("kind", "name", "code", "message"),
    [
        (2, "nope", 3, ""),
        (2, "", 17, "Topic name is invalid: the empty string is not allowed"),
        (4, "2", 42, "Unexpected broker id, expected 1 or empty string, but received 2"),
        (4, "-1", 42, "Unexpected broker id, expected 1 or empty string, but received -1"),
        (4, "x", 42, "Broker id must be an integer, but it is: x"),
        (8, "", 42, "Broker id must not be empty"),
        (8, "2", 42, "Unexpected broker id, expected 1 but received 2"),
        (8, "x", 42, "Broker id must be an integer, but it is: x"),
        (16, "", 42, "Client metrics subscription name must not be empty"),
        (32, "", 42, "Group name must not be empty"),
        (3, "x", 42, "Unsupported resource type: 3"),
    ],
)
def test_a_resource_that_is_not_there_is_an_error_of_its_own(
    kind: int, name: str, code: int, message: str
) -> None:
    result = ask(kind, name)
    assert (result.error_code, result.error_message, result.configs) == (code, message, [])


@pytest.mark.parametrize(
    ("kind", "name", "count"),
    [(2, "orders", 33), (4, "1", 340), (4, "", 0), (8, "1", 2), (16, "m", 3), (32, "readers", 17)],
)
@pytest.mark.parametrize("keys", [None, []])
def test_all_configs_are_described_unless_some_are_asked_for(
    kind: int, name: str, count: int, keys: list[str] | None
) -> None:
    result = ask(kind, name, keys)
    assert (result.error_code, len(result.configs)) == (0, count)
    names = [config.name for config in result.configs]
    assert names == sorted(names)


def test_only_known_configs_of_those_asked_for_are_described() -> None:
    result = ask(ConfigResourceType.TOPIC, "orders", ["segment.ms", "no.such.config", "retention.ms"])
    assert [config.name for config in result.configs] == ["retention.ms", "segment.ms"]


def test_synonyms_and_documentation_are_left_out_unless_asked_for() -> None:
    topic = TopicConfigs({"retention.ms": "5"}, BROKER)
    (bare,) = describe_topic(topic, DescribeOptions(["retention.ms"]))
    assert (bare.synonyms, bare.documentation) == ([], None)
    (full,) = describe_topic(topic, DescribeOptions(["retention.ms"], synonyms=True, documentation=True))
    assert full.synonyms
    assert full.documentation == "The age at which a segment is deleted; -1 means never."


def test_a_secret_is_never_shown() -> None:
    (entry,) = describe_broker(BROKER, DescribeOptions(["delegation.token.secret.key"], synonyms=True))
    assert (entry.value, entry.is_sensitive) == (None, True)
    assert [synonym.value for synonym in entry.synonyms] == [None]


def test_loggers_have_levels_and_nothing_else() -> None:
    assert describe_loggers(BrokerLoggers(["a"]), DescribeOptions(["a"])) == [
        DescribeConfigsResponse.DescribeConfigsResourceResult(
            name="a", value="INFO", config_source=6, documentation=""
        )
    ]


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_a_whole_answer_can_be_sent_and_read_again(version: int) -> None:
    response = DescribeConfigsResponse(
        results=[ask(2, "orders"), ask(4, "1"), ask(8, "1"), ask(32, "readers")]
    )
    frame = b"".join(encode_response(response, version, 1))[4:]
    decoded = decode_response(api_named("DescribeConfigs"), version, frame)
    assert isinstance(decoded, DescribeConfigsResponse)
    assert [len(result.configs) for result in decoded.results] == [33, 340, 2, 17]
