"""DescribeConfigs: values, where they come from, and what is said about resources that do not exist."""

from __future__ import annotations

from ottla.wire.messages import DescribeConfigsRequest
from tests.interop.comparison.requests import configs_of, given, just
from tests.interop.comparison.script import ask, section

TOPIC = "configs-a"
UNKNOWN, TOPICS, BROKERS, LOGGERS, METRICS, GROUPS = 0, 2, 4, 8, 16, 32
SOME = ["retention.ms", "cleanup.policy", "min.insync.replicas"]


def resource(
    kind: int, name: str, keys: list[str] | None = None
) -> DescribeConfigsRequest.DescribeConfigsResource:
    return DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )


SECTION = section(
    "describe configs",
    given(TOPIC, config={"retention.ms": "5000", "cleanup.policy": "compact,delete"}),
    ask("of a topic", configs_of(TOPICS, TOPIC, synonyms=False), 1),
    ask("of a topic with synonyms", configs_of(TOPICS, TOPIC, documentation=True), 4),
    ask("some of a topic", configs_of(TOPICS, TOPIC, SOME), 1, 2, 3, 4),
    ask("none of a topic", configs_of(TOPICS, TOPIC, []), 1, 4),
    ask("one twice", configs_of(TOPICS, TOPIC, ["retention.ms", "retention.ms"]), 4),
    ask("unknown ones of a topic", configs_of(TOPICS, TOPIC, ["no.such.config", "retention.ms"]), 4),
    ask("of an unknown topic", configs_of(TOPICS, "configs-none", SOME), 1, 4),
    ask("of a topic with a wrong name", configs_of(TOPICS, "configs none", SOME), 4),
    ask("of a topic without a name", configs_of(TOPICS, "", SOME), 4),
    ask("of a broker", configs_of(BROKERS, "1"), 4),
    ask(
        "some of a broker",
        configs_of(BROKERS, "1", ["log.retention.ms", "log.cleanup.policy", "node.id"]),
        1,
        3,
        4,
    ),
    ask(
        "of a broker with documentation",
        configs_of(BROKERS, "1", ["num.io.threads", "log.segment.bytes"], documentation=True),
        3,
        4,
    ),
    ask("of all brokers", configs_of(BROKERS, ""), 1, 4),
    ask("of an unknown broker", configs_of(BROKERS, "99"), 1, 4),
    ask("of a broker that is no number", configs_of(BROKERS, "one"), 4),
    ask("some of a logger", configs_of(LOGGERS, "1", ["no.such.logger"]), 1, 4),
    ask("of an unknown logger", configs_of(LOGGERS, "99", ["root"]), 4),
    ask("of an unknown kind", configs_of(UNKNOWN, "x"), 1, 4),
    ask("of a kind that does not exist", configs_of(77, "x"), 4),
    ask("of a metrics subscription", configs_of(METRICS, "none"), 4),
    ask("of a group", configs_of(GROUPS, "none"), 4),
    ask("of a group without a name", configs_of(GROUPS, ""), 4),
    ask(
        "of a topic, a broker and an unknown topic",
        just(
            DescribeConfigsRequest(
                resources=[
                    resource(TOPICS, TOPIC, SOME),
                    resource(BROKERS, "1", ["num.io.threads"]),
                    resource(TOPICS, "configs-none"),
                ]
            )
        ),
        4,
    ),
    ask("of one topic twice", just(DescribeConfigsRequest(resources=[resource(TOPICS, TOPIC, SOME)] * 2)), 4),
    ask("of nothing", just(DescribeConfigsRequest(resources=[])), 1, 4),
)
