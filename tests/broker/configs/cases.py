"""Requests about configs whose answers by Apache Kafka are on record (record.py, recorded.py).

A case alters one resource that has some overrides already. Every case has a topic, group or subscription of its own;
what it does to brokers is undone before the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.wire.resources import ConfigOperation, ConfigResourceType

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
UNKNOWN_OPERATION: Final = 9

NODE_ID: Final = 1
"""Of the broker that is asked."""

Change = tuple[str, int, str | None]


@dataclass(frozen=True)
class Case:
    """`whole`: by AlterConfigs, which replaces everything; `create`: by CreateTopics. `name` None: one of its own."""

    kind: int
    changes: tuple[Change, ...]
    name: str | None = None
    before: tuple[tuple[str, str], ...] = ()
    whole: bool = False
    create: bool = False


def all_cases() -> Iterator[Case]:
    for name, value in TOPIC_VALUES:
        yield Case(ConfigResourceType.TOPIC, ((name, SET, value),))
    for changes in TOPIC_CHANGES:
        yield Case(ConfigResourceType.TOPIC, changes)
    for before, changes in TOPIC_CHANGES_OF_SOME:
        yield Case(ConfigResourceType.TOPIC, changes, before=before)
    for name in ("", "a b", ".", "x" * 250):
        yield Case(ConfigResourceType.TOPIC, (("retention.ms", SET, "5"),), name=name)
    for configs in WHOLE:
        changes = tuple((name, SET, value) for name, value in configs)
        yield Case(ConfigResourceType.TOPIC, changes, before=(("segment.ms", "7"),), whole=True)
        yield Case(ConfigResourceType.TOPIC, changes, create=True)
    for changes in BROKER_CHANGES:
        for name in (str(NODE_ID), ""):
            yield Case(ConfigResourceType.BROKER, changes, name=name)
    for name in ("2", "x", "-1"):
        yield Case(ConfigResourceType.BROKER, (("message.max.bytes", SET, "5"),), name=name)
    yield Case(ConfigResourceType.BROKER, (("node.id", SET, "5"),), name="1", whole=True)
    yield Case(ConfigResourceType.BROKER, (("message.max.bytes", SET, "7000"),), name="", whole=True)
    yield Case(ConfigResourceType.BROKER, (), name="", whole=True)
    for changes in GROUP_CHANGES:
        yield Case(ConfigResourceType.GROUP, changes)
    yield Case(ConfigResourceType.GROUP, (("consumer.session.timeout.ms", SET, "50000"),), name="")
    for changes in CLIENT_METRICS_CHANGES:
        yield Case(ConfigResourceType.CLIENT_METRICS, changes)
    yield Case(ConfigResourceType.CLIENT_METRICS, (("interval.ms", SET, "50000"),), name="")
    for changes in LOGGER_CHANGES:
        yield Case(ConfigResourceType.BROKER_LOGGER, changes, name=str(NODE_ID))
    for name in ("2", "x", ""):
        yield Case(ConfigResourceType.BROKER_LOGGER, (("root", SET, "INFO"),), name=name)
    for kind in (0, 3, 64):
        yield Case(kind, (("a", SET, "b"),), name="x")


TOPIC_VALUES: Final[Sequence[tuple[str, str]]] = [
    *(("retention.ms", text) for text in ("x", "-2", "-1", " 5 ", "+5", "05", "", "1_0", "9" * 20, "0x10")),
    *(("retention.bytes", text) for text in ("-5", "1.5", "9223372036854775807", "9223372036854775808")),
    *(("segment.bytes", text) for text in ("99999999999", "10", "1048576")),
    *(("compression.gzip.level", text) for text in ("0", "10", "9", "-1", "x")),
    *(("compression.lz4.level", text) for text in ("99", "0", "17")),
    *(("compression.zstd.level", text) for text in ("23", "-131073", "-131072")),
    *(("compression.type", text) for text in ("none", "GZIP", " zstd ", "")),
    *(
        ("cleanup.policy", text)
        for text in (
            "foo",
            "",
            "delete,compact",
            "delete, compact",
            "delete,delete",
            "delete,",
            ",",
            "DELETE",
            "compact,foo",
        )
    ),
    *(("preallocate", text) for text in ("yes", "TRUE", " false", "1", "")),
    *(
        ("min.cleanable.dirty.ratio", text)
        for text in ("x", "1.1", "-0.1", "1e-5", "0.25f", "NaN", "1", ".5", "0.0005", "1e-3", "")
    ),
    *(("message.timestamp.type", text) for text in ("Foo", "LogAppendTime")),
    *(("internal.segment.bytes", text) for text in ("100", "x")),
    *(
        ("leader.replication.throttled.replicas", text)
        for text in ("*", "0:1,1:2", "0:1,x", "", "0:1,0:1", "0:1,", "*,*")
    ),
    ("min.insync.replicas", "0"),
    ("remote.storage.enable", "true"),
    ("remote.storage.enable", "false"),
    ("remote.log.copy.disable", "true"),
    ("local.retention.ms", "5"),
    ("local.retention.bytes", "-3"),
    ("flush.messages", "0"),
    ("max.compaction.lag.ms", "0"),
    ("segment.ms", "0"),
    ("segment.jitter.ms", "9999999999999"),
    ("message.format.version", "3.0"),
    ("no.such.config", "1"),
    ("", "1"),
]

TOPIC_CHANGES: Final[Sequence[tuple[Change, ...]]] = [
    (("min.compaction.lag.ms", SET, "100"), ("max.compaction.lag.ms", SET, "50")),
    (("no.such.config", SET, "1"), ("retention.ms", SET, "x")),
    (("no.such.config", DELETE, None),),
    (("no.such.config", DELETE, "x"),),
    (("no.such.config", APPEND, "x"),),
    (("retention.ms", APPEND, "x"),),
    (("retention.ms", SUBTRACT, "x"),),
    (("retention.ms", UNKNOWN_OPERATION, "5"),),
    (("retention.ms", SET, None),),
    (("cleanup.policy", APPEND, None),),
    (("retention.ms", SET, "5"), ("retention.ms", SET, "6")),
    (("retention.ms", SET, "5"), ("retention.ms", DELETE, None)),
    (("retention.ms", SET, None), ("segment.ms", SET, None)),
    (("cleanup.policy", APPEND, "compact"),),
    (("cleanup.policy", APPEND, "delete"),),
    (("cleanup.policy", APPEND, "foo"),),
    (("cleanup.policy", APPEND, ""),),
    (("cleanup.policy", APPEND, "compact, delete"),),
    (("cleanup.policy", APPEND, "compact,compact"),),
    (("cleanup.policy", APPEND, "compact,"),),
    (("cleanup.policy", APPEND, ",compact"),),
    (("cleanup.policy", SUBTRACT, "delete"),),
    (("cleanup.policy", SUBTRACT, "compact"),),
    (("cleanup.policy", SUBTRACT, ""),),
    (("leader.replication.throttled.replicas", APPEND, "0:1"),),
    (),
    (("retention.ms", SET, "5"), ("segment.ms", SET, "x")),
]

_POLICIES: Final = (("cleanup.policy", "compact,delete"), ("retention.ms", "7"))
TOPIC_CHANGES_OF_SOME: Final[Sequence[tuple[tuple[tuple[str, str], ...], tuple[Change, ...]]]] = [
    (_POLICIES, (("cleanup.policy", SUBTRACT, "delete"),)),
    (_POLICIES, (("cleanup.policy", SUBTRACT, "delete,compact"),)),
    (_POLICIES, (("cleanup.policy", DELETE, None),)),
    (_POLICIES, (("retention.ms", SET, "x"),)),
    (_POLICIES, (("retention.ms", SET, "7"),)),
    ((("min.compaction.lag.ms", "100"),), (("max.compaction.lag.ms", SET, "50"),)),
]

WHOLE: Final[Sequence[tuple[tuple[str, str | None], ...]]] = [
    (),
    (("retention.ms", " 6"), ("cleanup.policy", "compact")),
    (("retention.ms", None),),
    (("retention.ms", None), ("segment.ms", None)),
    (("no.such.config", None),),
    (("no.such.config", "1"),),
    (("retention.ms", "x"), ("no.such.config", "1")),
    (("retention.ms", "x"),),
    (("min.compaction.lag.ms", "9"), ("max.compaction.lag.ms", "5")),
]

BROKER_CHANGES: Final[Sequence[tuple[Change, ...]]] = [
    (("node.id", SET, "5"),),
    (("auto.create.topics.enable", SET, "false"),),
    (("auto.create.topics.enable", DELETE, None),),
    (("no.such.config", SET, "1"),),
    (("no.such.config", DELETE, None),),
    (("no.such.config", APPEND, "1"),),
    (("message.max.bytes", SET, "x"),),
    (("message.max.bytes", SET, "-1"),),
    (("message.max.bytes", SET, " 5000"),),
    (("message.max.bytes", APPEND, "5"),),
    (("message.max.bytes", SUBTRACT, "5"),),
    (("message.max.bytes", UNKNOWN_OPERATION, "5"),),
    (("message.max.bytes", SET, None),),
    (("message.max.bytes", SET, "1"), ("message.max.bytes", SET, "2")),
    (("log.cleanup.policy", APPEND, "compact"),),
    (("log.cleanup.policy", SUBTRACT, "delete"),),
    (("log.cleanup.policy", SET, "foo"),),
    (("log.cleanup.policy", SET, ""),),
    (("log.retention.ms", SET, "0"),),
    (("log.retention.ms", SET, "-5"),),
    (("log.retention.ms", SET, "100"),),
    (("log.retention.hours", SET, "1"),),
    (("log.roll.ms", SET, "0"),),
    (("log.roll.jitter.ms", SET, "-1"),),
    (("ssl.keystore.location", SET, "x"),),
    (("ssl.client.auth", SET, "none"),),
    (("ssl.client.auth", SET, "perhaps"),),
    (("listener.name.plaintext.ssl.keystore.location", SET, "x"),),
    (("listener.name.plaintext.max.connections", SET, "5"),),
    (("listener.name.plaintext.max.connections", SET, "x"),),
    (("sasl.enabled.mechanisms", SET, "PLAIN"),),
    (("max.connections", SET, "0"),),
    (("max.connections.per.ip", SET, "0"),),
    (("num.io.threads", SET, "100"),),
    (("num.io.threads", SET, "1"),),
    (("num.io.threads", SET, "16"),),
    (("background.threads", SET, "100"),),
    (("num.network.threads", SET, "100"),),
    (("num.replica.fetchers", SET, "100"),),
    (("log.cleaner.threads", SET, "5"),),
    (("log.cleaner.min.compaction.lag.ms", SET, "50"), ("log.cleaner.max.compaction.lag.ms", SET, "5")),
    (("min.insync.replicas", SET, "2"),),
    (("min.insync.replicas", DELETE, None),),
    (("leader.replication.throttled.rate", SET, "100"),),
    (("leader.replication.throttled.rate", SET, "-1"),),
    (("log.segment.bytes", SET, "5"),),
    (("log.message.timestamp.type", SET, "x"),),
    (("unclean.leader.election.enable", SET, "true"),),
    (("advertised.listeners", SET, "PLAINTEXT://a:1"),),
    (("log.cleaner.io.buffer.size", SET, "1"),),
    (("log.cleaner.dedupe.buffer.size", SET, "1"),),
    (("group.coordinator.cached.buffer.max.bytes", SET, "1"),),
    (("group.consumer.assignment.interval.ms", SET, "20000"),),
    (("producer.id.expiration.ms", SET, "1000"),),
    (("internal.metadata.delete.delay.millis", SET, "5"),),
    (("log.flush.interval.ms", SET, "-5"),),
    (("log.local.retention.ms", SET, "99999999999"),),
    (("log.retention.bytes", SET, "5"), ("log.local.retention.bytes", SET, "6")),
    (("log.retention.bytes", SET, "5"), ("log.local.retention.bytes", SET, "-1")),
    *(
        (("listeners", SET, text),)
        for text in ("x", "a,b", "//", "FOO://h:1", "PLAINTEXT://h:x", "PLAINTEXT://h:1,PLAINTEXT://h:2")
    ),
    (("listeners", SET, "FOO://h:1,x"),),
    *((("listener.security.protocol.map", SET, text),) for text in ("x", "a:b", "a:", ":")),
    *((("max.connections.per.ip.overrides", SET, text),) for text in ("x", "a:b", "a:", "a:1", "a:1,x")),
    *(
        (("metric.reporters", SET, text),)
        for text in ("x", "", "org.apache.kafka.common.metrics.JmxReporter,x")
    ),
    *((("principal.builder.class", SET, text),) for text in ("x", "")),
    (("ssl.engine.factory.class", SET, "x"),),
    (("cordoned.log.dirs", SET, "x,y"),),
    (("max.connection.creation.rate", SET, "0"),),
    (("log.cleaner.threads", SET, "0"),),
    (("remote.log.reader.threads", SET, "100"),),
    (("remote.log.manager.copier.thread.pool.size", SET, "1"),),
    # The first mistake counts.
    (("num.io.threads", SET, "100"), ("num.network.threads", SET, "100"), ("background.threads", SET, "100")),
    (("num.io.threads", SET, "100"), ("background.threads", SET, "100")),
    (("num.io.threads", SET, "100"), ("metric.reporters", SET, "x")),
    (("num.io.threads", SET, "100"), ("max.connections", SET, "0")),
    (("max.connection.creation.rate", SET, "0"), ("max.connections", SET, "0")),
    (("log.retention.ms", SET, "0"), ("listeners", SET, "x")),
    (("log.retention.ms", SET, "0"), ("log.cleaner.threads", SET, "0")),
    (("listeners", SET, "x"), ("message.max.bytes", SET, "?")),
    (("message.max.bytes", SET, "?"), ("log.retention.bytes", SET, "?"), ("log.cleanup.policy", SET, "?")),
    (("log.dirs", SET, "1"), ("node.id", SET, "1"), ("num.partitions", SET, "1"), ("broker.rack", SET, "1")),
    (("ssl.keystore.location", SET, "1"), ("ssl.keystore.type", SET, "1"), ("ssl.key.password", SET, "1")),
    (("group.streams.assignment.interval.ms", SET, "5000000"), ("listeners", SET, "x")),
    (("log.cleaner.dedupe.buffer.size", SET, "7"), ("group.share.assignment.interval.ms", SET, "5000000")),
    (("max.connections.per.ip", SET, "0"), ("log.cleaner.dedupe.buffer.size", SET, "7")),
    (("sasl.login.refresh.buffer.seconds", SET, "?"), ("ssl.cipher.suites", SET, ",")),
    (("max.connections", SET, "?"), ("listener.name.plaintext.max.connections", SET, "!")),
    (("metric.reporters", SET, "x"), ("ssl.cipher.suites", SET, " ")),
    (("config.providers", SET, ","),),
    (("leader.replication.throttled.rate", APPEND, "1"),),
    (("listener.name.plaintext.max.connections", SUBTRACT, "1"),),
    (),
]

GROUP_CHANGES: Final[Sequence[tuple[Change, ...]]] = [
    *(((("consumer.session.timeout.ms", SET, text)),) for text in ("x", "5", "50000", "99999999")),
    *(((("consumer.heartbeat.interval.ms", SET, text)),) for text in ("4999", "15001", None)),
    *(
        ((("share.auto.offset.reset", SET, text)),)
        for text in (
            "foo",
            "earliest",
            "LATEST",
            "by_duration",
            "by_duration:",
            "by_duration:x",
            "by_duration:P",
            "by_duration:PT",
            "by_duration:PT1H",
            "by_duration:p1dt2h3m4.5s",
            "by_duration:PT0S",
            "by_duration:-PT1H",
            "by_duration:P1M",
        )
    ),
    *(((("share.isolation.level", SET, text)),) for text in ("x", "READ_COMMITTED", "read_committed")),
    *(((("share.record.lock.duration.ms", SET, text)),) for text in ("999", "1000", "60001", "20000")),
    *(((("share.delivery.count.limit", SET, text)),) for text in ("1", "11")),
    *(((("share.renew.acknowledge.enable", SET, text)),) for text in ("x", "False")),
    (("share.partition.max.record.locks", SET, "4001"),),
    (("streams.num.standby.replicas", SET, "3"),),
    (("streams.session.timeout.ms", SET, "44999"),),
    (("streams.initial.rebalance.delay.ms", SET, "-1"),),
    (("consumer.assignment.interval.ms", SET, "15001"),),
    (("consumer.session.timeout.ms", APPEND, "1"),),
    (("no.such.config", SET, "1"),),
    (("no.such.config", DELETE, None),),
]

CLIENT_METRICS_CHANGES: Final[Sequence[tuple[Change, ...]]] = [
    *(((("interval.ms", SET, text)),) for text in ("x", "99", "100", "3600000", "3600001")),
    *(((("metrics", SET, text)),) for text in ("a,b", "a,a", "a,", "", "*")),
    *(
        ((("match", SET, text)),)
        for text in (
            "client_id=x",
            "client_id",
            "client_id=",
            "foo=x",
            "client_id=[",
            "client_id=a,client_id=b",
            "client_id=a=b",
            " client_id = x ",
        )
    ),
    (("metrics", APPEND, "a"),),
    (("interval.ms", SET, "?"), ("metrics", SET, ",")),
    (("interval.ms", APPEND, "1"),),
    (("no.such.config", SET, "1"),),
    (("no.such.config", DELETE, None),),
]

LOGGER_CHANGES: Final[Sequence[tuple[Change, ...]]] = [
    (("root", SET, "OFF"),),
    (("root", SET, "warn"),),
    (("root", SET, "INFO"),),
    (("root", SET, None),),
    (("root", DELETE, None),),
    (("root", APPEND, "INFO"),),
    (("root", SUBTRACT, "INFO"),),
    (("root", UNKNOWN_OPERATION, "INFO"),),
    (("no.such.logger", SET, "INFO"),),
    (("no.such.logger", SET, "OFF"),),
    (("no.such.logger", DELETE, None),),
]

# What is set where DescribeConfigs is on record: statically, for the broker, for all brokers, and so on.

STATIC: Final = {
    "log.retention.hours": "1",
    "log.roll.ms": "5000000",
    "log.flush.scheduler.interval.ms": "777",
    "message.max.bytes": "2000",
    "log.cleanup.policy": "compact , delete",
    "auto.create.topics.enable": "FALSE",
    "delegation.token.secret.key": "secret",
    "log.initial.task.delay.ms": "30001",
    "group.consumer.session.timeout.ms": "46000",
}
DYNAMIC: Final = {
    "log.retention.ms": " 100",
    "message.max.bytes": "3000",
    "leader.replication.throttled.rate": "100",
    "no.such.config": "x",
    "listener.name.plaintext.max.connections": "77",
    "listener.name.plaintext.ssl.keystore.password": "secret",
}
DYNAMIC_DEFAULT: Final = {
    "message.max.bytes": "4000",
    "log.roll.ms": "6000000",
    "another.unknown.config": "x",
    "follower.replication.throttled.rate": "5",
    "group.consumer.assignment.interval.ms": "1500",
    "min.insync.replicas": "1",
}
TOPIC_OVERRIDES: Final = {
    "retention.ms": " 50",
    "internal.segment.bytes": "100",
    "cleanup.policy": "delete, delete",
}
GROUP_OVERRIDES: Final = {"consumer.session.timeout.ms": "50000", "share.isolation.level": "read_committed"}
METRICS_OVERRIDES: Final = {"interval.ms": " 50000"}
