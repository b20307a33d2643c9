"""CreateTopics: what is accepted, what is refused, and in which words."""

from tests.interop.comparison.requests import creatable, create, is_led, metadata
from tests.interop.comparison.script import Step, ask, section

NODE, NO_NODE = 1, 99


def configured(label: str, name: str, value: str | None) -> list[Step]:
    """A topic with one config, in the version that names the configs in its answer."""
    return ask(
        f"config {label}", create(creatable(f"create-{label.replace(' ', '-')}", config={name: value})), 7
    )


SECTION = section(
    "create topics",
    (
        step
        for version in range(2, 8)
        for step in ask("two partitions", create(creatable(f"create-v{version}", 2)), version)
    ),
    ask("all there", metadata(*(f"create-v{version}" for version in range(2, 8))), 12, until=is_led),
    ask("only validated", create(creatable("create-valid", 3), validate_only=True), 2, 5, 7),
    ask("one that exists", create(creatable("create-v7")), 2, 5, 7),
    ask("one that exists, only validated", create(creatable("create-v7"), validate_only=True), 7),
    ask("default partitions and replicas", create(creatable("create-defaults", -1, -1)), 7),
    ask("default partitions and replicas, an old client", create(creatable("create-old", -1, -1)), 3),
    ask("default replicas", create(creatable("create-replicas", 2, -1)), 4),
    ask("no partitions", create(creatable("create-none", 0)), 2, 7),
    ask("fewer than no partitions", create(creatable("create-none", -2)), 7),
    ask("no replicas", create(creatable("create-none", 1, 0)), 2, 7),
    ask("fewer than no replicas", create(creatable("create-none", 1, -2)), 7),
    ask("more replicas than brokers", create(creatable("create-none", 1, 3)), 2, 7),
    ask("an empty name", create(creatable("")), 2, 7),
    ask("a name of one dot", create(creatable(".")), 7),
    ask("a name of two dots", create(creatable("..")), 7),
    ask("a name with a blank", create(creatable("create none")), 2, 7),
    ask("a name of 250 letters", create(creatable("c" * 250)), 7),
    ask("a name of 249 letters", create(creatable("c" * 249), validate_only=True), 7),
    ask("a name with a dot", create(creatable("create.dotted")), 7),
    ask("a name that a metric could not tell from another", create(creatable("create_dotted")), 7),
    ask("an internal name", create(creatable("__create_internal")), 7),
    ask("the name of the metadata log", create(creatable("__cluster_metadata")), 7),
    ask("one name twice", create(creatable("create-twice"), creatable("create-twice", 2)), 2, 7),
    ask("a good one and a bad one", create(creatable("create-good"), creatable("create bad")), 7),
    ask("no topics", create(), 2, 7),
    ask("assigned", create(creatable("create-assigned", -1, -1, assignments={0: [NODE], 1: [NODE]})), 2),
    ask(
        "assigned with gaps",
        create(creatable("create-none", -1, -1, assignments={0: [NODE], 2: [NODE]})),
        7,
    ),
    ask("assigned from one on", create(creatable("create-none", -1, -1, assignments={1: [NODE]})), 7),
    ask("assigned to a broker twice", create(creatable("create-none", -1, -1, assignments={0: [1, 1]})), 7),
    ask("assigned to no broker", create(creatable("create-none", -1, -1, assignments={0: []})), 7),
    ask(
        "assigned to an unknown broker",
        create(creatable("create-none", -1, -1, assignments={0: [NO_NODE]})),
        7,
    ),
    ask("assigned to a negative broker", create(creatable("create-none", -1, -1, assignments={0: [-1]})), 7),
    ask("assigned and counted", create(creatable("create-none", 1, -1, assignments={0: [NODE]})), 7),
    ask("assigned and replicated", create(creatable("create-none", -1, 1, assignments={0: [NODE]})), 7),
    ask("assigned unevenly", create(creatable("create-none", -1, -1, assignments={0: [1], 1: [1, 2]})), 7),
    configured("retention", "retention.ms", "1000"),
    configured("retention with blanks", "retention.ms", " 1000 "),
    configured("retention below minus one", "retention.ms", "-2"),
    configured("retention that is no number", "retention.ms", "soon"),
    configured("retention that is empty", "retention.ms", ""),
    configured("retention that is null", "retention.ms", None),
    configured("retention too large", "retention.ms", "9223372036854775808"),
    configured("unknown", "no.such.config", "1"),
    configured("cleanup compact", "cleanup.policy", "compact"),
    configured("cleanup both", "cleanup.policy", "compact,delete"),
    configured("cleanup neither", "cleanup.policy", "sometimes"),
    configured("cleanup empty", "cleanup.policy", ""),
    configured("cleanup upper case", "cleanup.policy", "COMPACT"),
    configured("compression", "compression.type", "zstd"),
    configured("compression unknown", "compression.type", "brotli"),
    configured("zstd level", "compression.zstd.level", "23"),
    configured("gzip level", "compression.gzip.level", "0"),
    configured("lz4 level", "compression.lz4.level", "18"),
    configured("in sync none", "min.insync.replicas", "0"),
    configured("segment small", "segment.bytes", "10"),
    configured("segment megabyte", "segment.bytes", "1048576"),
    configured("message size negative", "max.message.bytes", "-1"),
    configured("dirty ratio", "min.cleanable.dirty.ratio", "1.5"),
    configured("dirty ratio that is no number", "min.cleanable.dirty.ratio", "half"),
    configured("flag", "unclean.leader.election.enable", "True"),
    configured("flag that is none", "unclean.leader.election.enable", "yes"),
    configured("timestamp type", "message.timestamp.type", "LogAppendTime"),
    configured("timestamp type unknown", "message.timestamp.type", "Never"),
    configured("retired", "message.format.version", "2.8"),
    configured("compaction lag", "max.compaction.lag.ms", "0"),
    configured("compaction lags crossed", "min.compaction.lag.ms", "9223372036854775807"),
    configured("local retention above the total", "local.retention.ms", "999999999999"),
    configured("tiered", "remote.storage.enable", "true"),
    configured("throttled replicas", "leader.replication.throttled.replicas", "0:1,1:1"),
    configured("throttled replicas wrong", "leader.replication.throttled.replicas", "all"),
    ask(
        "two configs, one wrong",
        create(creatable("create-none", config={"retention.ms": "1", "segment.ms": "x"})),
        2,
        7,
    ),
    ask(
        "a wrong config, only validated",
        create(creatable("create-none", config={"a": "b"}), validate_only=True),
        7,
    ),
    ask("without time", create(creatable("create-none"), timeout_ms=0), 2, 7),
    ask("with less than no time", create(creatable("create-none"), timeout_ms=-1), 7),
    ask("none without time", create(timeout_ms=0), 7),
    ask("one name twice without time", create(creatable("create-n"), creatable("create-n"), timeout_ms=0), 7),
    ask(
        "one name twice and another without time",
        create(creatable("create-n"), creatable("create-n"), creatable("create-o"), timeout_ms=0),
        7,
    ),
    ask("the metadata log without time", create(creatable("__cluster_metadata"), timeout_ms=0), 7),
    ask("a bad name without time", create(creatable("create none"), timeout_ms=0), 7),
    ask(
        "several unknown configs",
        create(creatable("create-none", config={"beta": "1", "alpha": "1", "no.such.config": "1"})),
        7,
    ),
    ask(
        "several wrong configs",
        create(
            creatable("create-none", config={"retention.ms": "?", "cleanup.policy": "?", "segment.ms": "?"})
        ),
        7,
    ),
    ask(
        "several null configs",
        create(
            creatable("create-none", config={"segment.ms": None, "flush.ms": None, "no.such.config": "1"})
        ),
        7,
    ),
    ask("ten thousand partitions", create(creatable("create-many", 10_000), validate_only=True), 7),
    ask(
        "one more than ten thousand partitions",
        create(creatable("create-many", 10_001), validate_only=True),
        7,
    ),
    ask(
        "too many partitions beside one name twice",
        create(creatable("create-many", 10_001), creatable("create-n"), creatable("create-n")),
        7,
    ),
    ask("the most partitions", create(creatable("create-many", 2**31 - 1), validate_only=True), 7),
    ask("the most replicas", create(creatable("create-many", 1, 2**15 - 1), validate_only=True), 7),
)
