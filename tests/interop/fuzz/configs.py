"""Random requests about configs: DescribeConfigs, AlterConfigs, IncrementalAlterConfigs."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.wire.messages import AlterConfigsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest
from tests.interop.fuzz.drawing import ODD, PLAIN, UNKNOWN, Draw, FuzzStep, plain_step, step

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32

# Values that are good for some of the configs and bad for others.
_VALUES = (
    *("1", "0", "-1", "-2", "1000", "2147483648", "x", "", " 7 ", "true", "no", "0.5", "1.5"),
    *("compact", "delete", "compact,delete", "delete,delete", "gzip", "zstd", "LogAppendTime", "none"),
)
_TOPIC_CONFIGS = (
    *("cleanup.policy", "retention.ms", "max.message.bytes", "compression.type", "min.insync.replicas"),
    *("message.timestamp.type", "segment.bytes", "flush.ms", "preallocate", "min.cleanable.dirty.ratio"),
    *("compression.gzip.level", "unclean.leader.election.enable", "retention.bytes", "segment.ms"),
    *("follower.replication.throttled.replicas", "no.such.config", "", "message.format.version"),
    *("local.retention.ms", "remote.storage.enable", "delete.retention.ms", "message.timestamp.after.max.ms"),
)
_BROKER_CONFIGS = (
    *("background.threads", "log.cleaner.threads", "num.io.threads", "log.retention.ms", "broker.id"),
    *("message.max.bytes", "min.insync.replicas", "no.such.config", "log.dirs", "compression.type"),
    *("max.connections.per.ip", "num.network.threads", "log.cleanup.policy", "listeners"),
)


def topic_configs(draw: Draw) -> dict[str, str | None]:
    return {draw.one(*_TOPIC_CONFIGS): _value(draw) for _ in range(draw.randint(1, 3))}


def _value(draw: Draw) -> str | None:
    return draw.mostly(draw.one(*_VALUES), None, chance=0.93)


def _resource(draw: Draw) -> tuple[int, str]:
    return draw.mostly(
        (TOPIC, draw.mostly(ODD, PLAIN)),
        (TOPIC, UNKNOWN),
        (TOPIC, ""),
        (TOPIC, ".."),
        (BROKER, "1"),
        (BROKER, "9"),
        (BROKER, "x"),
        (0, "zero"),
        (1, "one"),
        (GROUP, "fuzz-group"),
        (GROUP, ""),
        (CLIENT_METRICS, "fuzz-metrics"),
        (127, "none"),
        chance=0.6,
    )


def describe(draw: Draw) -> FuzzStep:
    resources = [
        DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=_keys(draw, kind)
        )
        for kind, name in (_resource(draw) for _ in range(draw.mostly(1, 2, 0)))
    ]
    # Not every config of a broker has a sentence that is true of the embedded cluster.
    has_brokers = any(resource.resource_type == BROKER for resource in resources)
    request = DescribeConfigsRequest(
        resources=resources,
        include_synonyms=draw.often(0.5),
        include_documentation=draw.often(0.1) and not has_brokers,
    )
    named = [(r.resource_type, r.resource_name, r.configuration_keys) for r in resources]
    return plain_step(draw, request, f"{named} synonyms {request.include_synonyms}")


def _sets_append_time(
    resources: Sequence[
        IncrementalAlterConfigsRequest.AlterConfigsResource | AlterConfigsRequest.AlterConfigsResource
    ],
) -> bool:
    return any(config.value == "LogAppendTime" for resource in resources for config in resource.configs)


def _keys(draw: Draw, kind: int) -> list[str] | None:
    if kind == TOPIC and draw.often(0.5):
        return None
    return draw.some(_BROKER_CONFIGS if kind == BROKER else _TOPIC_CONFIGS)


def incremental(draw: Draw) -> FuzzStep:
    resources = []
    changes_brokers = False
    for _ in range(draw.mostly(1, 2, 3, 0, chance=0.5)):
        kind, name = _resource(draw)
        changes_brokers = changes_brokers or kind == BROKER
        keys = _BROKER_CONFIGS if kind == BROKER else _TOPIC_CONFIGS
        configs = [
            IncrementalAlterConfigsRequest.AlterableConfig(
                name=key,
                config_operation=draw.mostly(0, 1, 2, 3, 9, -1, chance=0.6),
                value=_value(draw),
            )
            for key in draw.some(draw.sample(keys, 2), draw.mostly(2, 0 + 1, 3))
        ]
        resources.append(
            IncrementalAlterConfigsRequest.AlterConfigsResource(
                resource_type=kind, resource_name=name, configs=configs
            )
        )
    # What is set for a broker would stay when the script is over, and append times are the clock's.
    only = changes_brokers or _sets_append_time(resources) or draw.often(0.3)
    request = IncrementalAlterConfigsRequest(resources=resources, validate_only=only)
    named = [
        (r.resource_type, r.resource_name, [(c.name, c.config_operation, c.value) for c in r.configs])
        for r in resources
    ]
    return plain_step(draw, request, f"{named}{' validate only' if only else ''}", settles=not only)


def whole(draw: Draw) -> FuzzStep:
    resources = []
    changes_brokers = False
    # Apache Kafka fails inside, and does not answer, when a resource is named twice.
    for kind, name in dict.fromkeys(_resource(draw) for _ in range(draw.mostly(1, 2, 0, chance=0.6))):
        changes_brokers = changes_brokers or kind == BROKER
        keys = _BROKER_CONFIGS if kind == BROKER else _TOPIC_CONFIGS
        configs = [
            AlterConfigsRequest.AlterableConfig(name=key, value=_value(draw))
            for key in draw.some(draw.sample(keys, 2), 2)
        ]
        resources.append(
            AlterConfigsRequest.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        )
    only = changes_brokers or _sets_append_time(resources) or draw.often(0.3)
    request = AlterConfigsRequest(resources=resources, validate_only=only)
    named = [(r.resource_type, r.resource_name, [(c.name, c.value) for c in r.configs]) for r in resources]
    return plain_step(draw, request, f"{named}{' validate only' if only else ''}", settles=not only)


def of_topics() -> FuzzStep:
    """All configs of the script's topics: what is left of a script."""
    resources = [
        DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=TOPIC, resource_name=name, configuration_keys=None
        )
        for name in (PLAIN, ODD)
    ]
    request = DescribeConfigsRequest(resources=resources, include_synonyms=True)
    return step("DescribeConfigs of all topics", 4, lambda _world: request)
