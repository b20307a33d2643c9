"""The options of the source and of the sink: parsed, checked, immutable, picklable.

They are those of the JVM Kafka connector, with its defaults, its precedence and its refusals, so that a job moves
over without changes; a refusal begins with that connector's words where it has some, and says what to change.

Not here: names and the forms of single values (`parsing`), what to read (`topics`), where to begin and to end
(`offsets`), the configuration of Kafka's client (`client`), the value's columns (`ottla.spark.values` when reading,
`encoding` when writing).

Invariant: options that exist are valid, as far as that can be known without a broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, Self, TypeAlias, get_args

from ottla.spark.options.offsets import (
    Latest,
    NoMatchStrategy,
    OffsetOption,
    check_batch,
    ending_offsets,
    no_match_strategy,
    starting_offsets,
)
from ottla.spark.options.parsing import (
    INT32,
    INT64,
    KAFKA_PREFIX,
    OptionError,
    flag,
    optional,
    positive,
    refused,
    seconds,
    warn_of_unknown,
    warn_once,
    whole,
)
from ottla.spark.options.topics import Topics, parse_topics

if TYPE_CHECKING:
    from ottla.spark.options.encoding import ValueEncoding
    from ottla.spark.values import ValueOptions

_MAX_TRIGGER_DELAY: Final = 900.0
_TARGET_PARTITIONS: Final = 8
"""Where nothing is known of the cluster. Too low costs little: a task with four million offsets is not added to."""
PARALLELISM: Final = "_ottla.parallelism"
"""How many tasks Spark runs at a time, as `register` knows it: the default of targetPartitions. Not for users."""
TABLE: Final = "_ottla.table"
"""Whether a batch is read as its topics are when tasks run, as pipelines read tables. Not for users."""
_TRIGGER_OPTIONS: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What a query reads, and how. Durations are in seconds.

    >>> options = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}
    >>> SourceOptions.parse(options, streaming=True).start
    Latest()
    """

    # Not in the repr, which ends up in logs: there may be a password among them.
    kafka: Mapping[str, str] = field(repr=False)
    topics: Topics
    start: OffsetOption
    end: OffsetOption = field(default_factory=Latest)
    by_timestamp_strategy: NoMatchStrategy = "error"
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    # None: every partition has a task of its own.
    target_partitions: int | None = _TARGET_PARTITIONS
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay: float = _MAX_TRIGGER_DELAY
    include_headers: bool = False
    # Attempts in all, although the option is called numRetries: the JVM connector counts the first one too.
    fetch_offset_retries: int = 3
    fetch_offset_retry_interval: float = 1.0
    poll_timeout: float = 120.0
    value: ValueOptions | None = None
    # The group that a stream shows its progress in.
    commit_group: str | None = None
    # A batch whose offsets are found out by its tasks.
    is_table: bool = False

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool) -> Self:
        """From the options of spark.read or spark.readStream, whose keys may have any case."""
        given = _in_lower_case(options)
        warn_of_unknown(given)
        if streaming:
            _refuse_ends(given)
        start = starting_offsets(given, streaming=streaming)
        end = Latest() if streaming else ending_offsets(given)
        if not streaming:
            check_batch(start, end)
        most, least, delay = _trigger_limits(given, streaming=streaming)
        return cls(
            topics=parse_topics(given),
            kafka=_kafka_options(given, "consumer"),
            start=start,
            end=end,
            by_timestamp_strategy=no_match_strategy(given),
            fail_on_data_loss=_flag(given, "failOnDataLoss", default=True),
            min_partitions=optional(given, "minPartitions", lambda *it: positive(*it, most=INT32)),
            target_partitions=_target_partitions(given),
            max_records_per_partition=optional(given, "maxRecordsPerPartition", positive),
            max_offsets_per_trigger=most,
            min_offsets_per_trigger=least,
            max_trigger_delay=delay,
            include_headers=_flag(given, "includeHeaders", default=False),
            fetch_offset_retries=_whole(given, "fetchOffset.numRetries", default=3, least=1, most=INT32),
            fetch_offset_retry_interval=_whole(given, "fetchOffset.retryIntervalMs", default=1_000) / 1000,
            poll_timeout=_whole(given, "kafkaConsumer.pollTimeoutMs", default=120_000) / 1000,
            value=value_options(given),
            commit_group=_commit_group(given, streaming=streaming),
            is_table=not streaming and TABLE in given,
        )


Delivery: TypeAlias = Literal["exactly-once", "at-least-once"]
UNSTABLE: Final = "_ottla.unstable"
"""The step of the query, if there is one, by which tasks may have other rows the next time. Not for users."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """Where rows are written to, and with which promise; the topic beats the rows' own column."""

    kafka: Mapping[str, str] = field(repr=False)
    topic: str | None = None
    include_headers: bool = False
    delivery: Delivery = "exactly-once"
    sink_id: str | None = None
    """The name of the sink's transactions and of what it remembers; None: the id of the query."""
    checkpoint: str | None = None
    """Where the query keeps its own id, if it was told as an option."""
    value: ValueEncoding | None = None
    """How columns become the value; None: it comes as string or binary."""

    @property
    def is_exactly_once(self) -> bool:
        return self.delivery == "exactly-once"

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """From the options of df.write or df.writeStream, whose keys may have any case."""
        given = _in_lower_case(options)
        warn_of_unknown(given)
        delivery = optional(given, "ottla.delivery", _delivery) or "exactly-once"
        if delivery == "exactly-once":
            _refuse_unstable(given)
        return cls(
            kafka=_kafka_options(given, "producer" if delivery == "at-least-once" else "transactions"),
            topic=optional(given, "topic", _topic),
            include_headers=_flag(given, "includeHeaders", default=False),
            delivery=delivery,
            sink_id=optional(given, "ottla.sink.id", _sink_id),
            checkpoint=given.get("checkpointlocation"),
            value=_value_encoding(given),
        )


def _value_encoding(given: Mapping[str, str]) -> ValueEncoding | None:
    # As with the source: only for jobs that set it.
    if not any(name.startswith("value.") for name in given):
        return None
    from ottla.spark.options.encoding import ValueEncoding

    return ValueEncoding.parse(given)


def _delivery(name: str, text: str) -> Delivery:
    for known in get_args(Delivery):
        if text.strip().lower() == known:
            return known  # type: ignore[no-any-return]
    raise refused(name, text, " or ".join(get_args(Delivery)))


def _sink_id(name: str, text: str) -> str:
    from ottla.spark.sink.exactly_once.names import SinkNames

    try:
        return SinkNames(text).sink_id
    except ValueError as error:
        raise OptionError(f"option '{name}' cannot be {text!r}: {error}") from None


def _refuse_unstable(given: Mapping[str, str]) -> None:
    if UNSTABLE.lower() in given:
        raise unstable(given[UNSTABLE.lower()])


def unstable(what: str) -> OptionError:
    return OptionError(
        "exactly-once delivery needs a query whose tasks have the same rows when a micro-batch runs again, and here "
        f"they depend on chance: {what}. Take it from the records themselves, or set ottla.delivery to at-least-once"
    )


def _in_lower_case(options: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in options.items()}


def _refuse_ends(given: Mapping[str, str]) -> None:
    for name, what in (("endingOffsets", "offset"), ("endingOffsetsByTimestamp", "timestamp")):
        if name.lower() in given:
            raise OptionError(
                f"ending {what} not valid in streaming queries: leave out {name}, or read a batch with spark.read"
            )
    if "endingtimestamp" in given:
        warn_once("endingTimestamp", "endingTimestamp has no effect in streaming queries: they have no end")


def _topic(name: str, text: str) -> str:
    topic = text.strip()
    if not topic:
        raise OptionError(
            f"option '{name}' is empty: name a topic, or leave it out and give rows a topic column"
        )
    return topic


def _commit_group(given: Mapping[str, str], *, streaming: bool) -> str | None:
    name = "ottla.commit.group"
    group = optional(given, name, lambda _, text: text.strip())
    if group is None:
        return None
    if not group:
        raise OptionError(f"option '{name}' is empty: name a consumer group, or leave it out")
    if not streaming:
        warn_once(name, f"{name} has no effect in batch queries: they have no progress to show")
        return None
    return group


def _flag(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = given.get(name.lower())
    return default if text is None else flag(name, text)


def _whole(given: Mapping[str, str], name: str, *, default: int, least: int = 0, most: int = INT64) -> int:
    text = given.get(name.lower())
    return default if text is None else whole(name, text, least=least, most=most)


def _target_partitions(given: Mapping[str, str]) -> int | None:
    name = "targetPartitions"
    text = given.get(name.lower(), given.get(PARALLELISM, str(_TARGET_PARTITIONS)))
    if text.lower() == "off":
        return None
    try:
        return positive(name, text, most=INT32)
    except OptionError as error:
        raise OptionError(f"{error}, or off, which gives every partition a task of its own") from None


def _trigger_limits(given: Mapping[str, str], *, streaming: bool) -> tuple[int | None, int | None, float]:
    """The most and the fewest offsets of a micro-batch, and how long to wait for the fewest."""
    if streaming:
        delay = optional(given, "maxTriggerDelay", seconds)
        return *_offsets_per_trigger(given), _MAX_TRIGGER_DELAY if delay is None else delay
    named = [name for name in _TRIGGER_OPTIONS if name.lower() in given]
    for name in named:
        warn_once(name, f"{name} option ignored in batch queries")
    if "maxOffsetsPerTrigger" in named and "minOffsetsPerTrigger" in named:
        # Ignored, but not if they contradict each other: so it is in the JVM connector.
        _offsets_per_trigger(given)
    return None, None, _MAX_TRIGGER_DELAY


def _offsets_per_trigger(given: Mapping[str, str]) -> tuple[int | None, int | None]:
    most = optional(given, "maxOffsetsPerTrigger", positive)
    least = optional(given, "minOffsetsPerTrigger", whole)
    if most is not None and least is not None and least > most:
        raise OptionError(
            f"The value of minOffsetPerTrigger({least}) is higher than the maxOffsetsPerTrigger({most}): "
            "lower minOffsetsPerTrigger or raise maxOffsetsPerTrigger"
        )
    return most, least


def _kafka_options(
    given: Mapping[str, str], client: Literal["consumer", "producer", "transactions"]
) -> dict[str, str]:
    """The options for Kafka's client without their prefix, checked by making the configuration from them."""
    # Only where a query is planned: finding the source and its columns takes no configuration.
    from ottla.spark.options.client import partitioner, sink_config, source_config, transactional_config

    kafka = {
        name.removeprefix(KAFKA_PREFIX): value
        for name, value in given.items()
        if name.startswith(KAFKA_PREFIX)
    }
    if "bootstrap.servers" not in kafka:
        kind = "consumer" if client == "consumer" else "producer"
        raise OptionError(
            f"Option 'kafka.bootstrap.servers' must be specified for configuring Kafka {kind}: "
            "name at least one broker, as host:port"
        )
    if client == "consumer":
        source_config(kafka)
    else:
        transactional_config(kafka) if client == "transactions" else sink_config(kafka)
        partitioner(kafka)
    return kafka


def value_options(given: Mapping[str, str]) -> ValueOptions | None:
    """How the value becomes columns, of options with keys in lower case; None: it stays bytes."""
    # Imported only for jobs that set such an option: workers of other jobs start without it.
    if not any(name.startswith("value.") for name in given):
        return None
    from ottla.spark.values import ValueOptions

    return ValueOptions.parse(given)
