"""ClientConfig: every option of the client, with its default, what it may be, and its description.

The defaults are those of Kafka 4.3's clients but for linger_ms and batch_size, which fit a client that batches
natively, client_id, and the sizes of socket buffers, where a fixed one would turn off the system's own tuning. Where
Kafka's producer, consumer and admin client differ, the consumer's is taken.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self

from ottla.config.addresses import Address, parse_servers
from ottla.config.agreement import check_agreement, derived_timeouts
from ottla.config.java import logger, options_from
from ottla.config.names import no_option
from ottla.config.options import Option, option, options_of, required
from ottla.config.properties import read_properties
from ottla.config.rules import (
    INT32,
    Acks,
    Assignors,
    Choice,
    Flag,
    OffsetReset,
    Servers,
    Text,
    WholeNumber,
)
from ottla.errors import ConfigurationError

_FLAG: Final = Flag()
_TEXT: Final = Text()
# Kafka's "long" and "int" from 0.
_LONG: Final = WholeNumber(0)
_INT: Final = WholeNumber(0, INT32)
_BUFFER: Final = WholeNumber(0, INT32, off=-1)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ClientConfig:
    """The options of a client, valid from the moment it exists.

    >>> config = ClientConfig(bootstrap_servers="localhost:9092", linger_ms=5)
    >>> config.replace(compression_type="zstd")
    ClientConfig(bootstrap_servers=('localhost:9092',), linger_ms=5, compression_type='zstd')
    """

    bootstrap_servers: str | Sequence[str] = field(
        metadata=required(
            Servers(), "The brokers to connect to first, as host:port; the cluster names the others."
        )
    )
    addresses: tuple[Address, ...] = field(init=False, compare=False)
    """`bootstrap_servers`, parsed."""
    _named: frozenset[str] = field(init=False, compare=False)
    """The options that were given; some of the others follow them."""

    # Who the client is
    client_id: str = option("ottla", _TEXT, "The name that brokers log, and that quotas go by.")
    client_rack: str = option("", _TEXT, "Where the client runs, so that it may read from a replica nearby.")
    enable_metrics_push: bool = option(
        True, _FLAG, "Whether to send metrics to brokers that subscribe to them."
    )

    # Connections
    security_protocol: Literal["PLAINTEXT"] = option(
        "PLAINTEXT",
        Choice(("PLAINTEXT",), later=("SSL", "SASL_PLAINTEXT", "SASL_SSL"), any_case=True),
        "How brokers are spoken to.",
    )
    client_dns_lookup: Literal["use_all_dns_ips"] = option(
        "use_all_dns_ips",
        Choice(("use_all_dns_ips",), later=("RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY",)),
        "How names of hosts are looked up: every address of a host is tried.",
    )
    send_buffer_bytes: int = option(
        -1, _BUFFER, "The socket's send buffer; -1 leaves it to the system, which adapts it."
    )
    receive_buffer_bytes: int = option(
        -1, _BUFFER, "The socket's receive buffer; -1 leaves it to the system, which adapts it."
    )
    socket_connection_setup_timeout_ms: int = option(
        10_000, _LONG, "How long the first attempt to connect may take; each failure doubles it."
    )
    socket_connection_setup_timeout_max_ms: int = option(
        30_000, _LONG, "How long any attempt to connect may take."
    )
    connections_max_idle_ms: int = option(
        540_000, WholeNumber(0, off=-1), "When to close an idle connection; -1 is never."
    )
    reconnect_backoff_ms: int = option(50, _LONG, "How long to wait before connecting again, at first.")
    reconnect_backoff_max_ms: int = option(1_000, _LONG, "How long to wait before connecting again, at most.")

    # Requests
    request_timeout_ms: int = option(
        30_000, _INT, "How long a broker may take to answer one request; follows default_api_timeout_ms."
    )
    default_api_timeout_ms: int = option(
        60_000, _INT, "How long a call may take in all, with its retries, if it does not say so itself."
    )
    retries: int = option(2**31 - 1, _INT, "How often to try again after an error that may pass.")
    retry_backoff_ms: int = option(100, _LONG, "How long to wait before trying again, at first.")
    retry_backoff_max_ms: int = option(1_000, _LONG, "How long to wait before trying again, at most.")

    # Metadata
    metadata_max_age_ms: int = option(
        300_000, _LONG, "When to request metadata again although nothing went wrong."
    )
    metadata_min_age_ms: int = option(
        5_000, _LONG, "How long to wait between two requests for metadata, whatever goes wrong.", ours=True
    )
    metadata_max_idle_ms: int = option(
        300_000, WholeNumber(5_000), "When to forget a topic that nothing is produced to."
    )
    metadata_recovery_strategy: Literal["rebootstrap", "none"] = option(
        "rebootstrap",
        Choice(("rebootstrap", "none"), any_case=True),
        "Whether to begin again with the bootstrap servers when no known broker answers.",
    )
    metadata_recovery_rebootstrap_trigger_ms: int = option(
        300_000, _LONG, "How long metadata may fail before beginning again with the bootstrap servers."
    )
    allow_auto_create_topics: bool = option(
        True, _FLAG, "Whether reading a topic that does not exist may create it, if brokers allow that."
    )

    # Producing
    acks: Literal["all", -1, 0, 1] = option(
        "all",
        Acks(),
        "Who has to have a record before it counts as delivered: all in sync, the leader, none.",
    )
    enable_idempotence: bool = option(
        True, _FLAG, "Whether brokers recognize a retried batch, so that it is stored once and in order."
    )
    max_in_flight_requests_per_connection: int = option(
        5, WholeNumber(1, INT32), "How many produce requests may wait for their responses on one connection."
    )
    linger_ms: int = option(10, _LONG, "How long a batch that is not full waits for more records.")
    batch_size: int = option(
        1_000_000, _INT, "How many bytes a batch gathers, at most; a larger record travels alone."
    )
    max_request_size: int = option(
        1_048_576, _INT, "How many bytes a record, and the records of a produce request, may have."
    )
    buffer_memory: int = option(33_554_432, _LONG, "How many bytes of records may wait to be delivered.")
    max_buffered_records: int = option(
        -1,
        WholeNumber(1, off=-1),
        "How many records may wait to be delivered; -1 leaves it to memory.",
        ours=True,
    )
    max_block_ms: int = option(
        60_000,
        _LONG,
        "How long producing may wait for metadata or for buffer memory; follows default_api_timeout_ms.",
    )
    delivery_timeout_ms: int = option(
        120_000,
        _INT,
        "When to give up a record, unless it may be stored: with idempotence that is tried until a broker says.",
    )
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"] = option(
        "none", Choice(("none", "gzip", "snappy", "lz4", "zstd")), "How batches are compressed."
    )
    compression_gzip_level: int = option(
        -1, WholeNumber(1, 9, off=-1), "How hard gzip tries; -1 is its own default."
    )
    compression_lz4_level: int = option(9, WholeNumber(1, 17), "How hard lz4 tries.")
    compression_zstd_level: int = option(3, WholeNumber(-131_072, 22), "How hard zstd tries.")
    partitioner_ignore_keys: bool = option(
        False, _FLAG, "Whether records with a key are spread as those without one are."
    )
    partitioner_adaptive_partitioning_enable: bool = option(
        True, _FLAG, "Whether records without a key go to quicker brokers more often."
    )
    partitioner_availability_timeout_ms: int = option(
        0, _LONG, "After how long a broker that takes no batch gets no records without a key; 0 is never."
    )

    # Transactions
    transactional_id: str = option(
        "",
        _TEXT,
        "The name under which a client produces in transactions, and replaces an older one; empty is none.",
    )
    transaction_timeout_ms: int = option(
        60_000,
        WholeNumber(1, INT32),
        "After how long its coordinator aborts an open transaction; a session takes less than session_timeout_ms.",
    )

    # Consuming
    auto_offset_reset: str = option(
        "latest", OffsetReset(), "Where to begin without a position, or with one that no longer exists."
    )
    isolation_level: Literal["read_uncommitted", "read_committed"] = option(
        "read_uncommitted",
        Choice(("read_uncommitted", "read_committed")),
        "Whether to read the records of transactions that are open or aborted.",
    )
    fetch_min_bytes: int = option(1, _INT, "How many bytes a broker gathers before it answers a fetch.")
    fetch_max_wait_ms: int = option(500, _INT, "How long a broker waits for fetch_min_bytes.")
    fetch_max_bytes: int = option(
        52_428_800, _INT, "How many bytes a response may have; one larger batch still comes through."
    )
    max_partition_fetch_bytes: int = option(
        1_048_576, _INT, "How many bytes of one partition a response may have; one larger batch still comes."
    )
    max_poll_records: int = option(500, WholeNumber(1, INT32), "How many records one poll returns.")
    check_crcs: bool = option(True, _FLAG, "Whether the checksum of every batch that is read is verified.")

    # Consumer groups
    group_id: str = option("", _TEXT, "The group that consumers of whole topics belong to; empty is none.")
    group_instance_id: str = option(
        "", _TEXT, "A name of the member that outlives a restart (static membership); empty is none."
    )
    group_protocol: Literal["classic", "consumer"] = option(
        "classic",
        Choice(("classic", "consumer"), any_case=True),
        "Who assigns partitions: a member of the group, or with KIP-848 its coordinator.",
    )
    group_remote_assignor: str = option(
        "", _TEXT, "The coordinator's assignor, for group_protocol='consumer'; empty leaves it to the broker."
    )
    session_timeout_ms: int = option(
        45_000, WholeNumber(1, INT32), "After how long without a heartbeat a classic group drops a member."
    )
    heartbeat_interval_ms: int = option(
        3_000, WholeNumber(1, INT32), "How often a member of a classic group sends a heartbeat."
    )
    max_poll_interval_ms: int = option(
        300_000,
        WholeNumber(1, INT32),
        "How long a program may work on what it got before its member leaves the group.",
    )
    partition_assignment_strategy: str | Sequence[str] = option(
        ("range", "cooperative-sticky"),
        Assignors(),
        "The assignors that a classic group may use, those preferred first.",
    )
    enable_auto_commit: bool = option(
        True, _FLAG, "Whether a group's consumer commits by itself what the program is done with."
    )
    auto_commit_interval_ms: int = option(5_000, _INT, "How often it does.")
    auto_commit_marks: bool = option(
        False, _FLAG, "Whether it commits only what the program has marked.", ours=True
    )
    block_rebalance_on_poll: bool = option(
        False,
        _FLAG,
        "Whether a rebalance waits until the program asks for more, or allows it.",
        ours=True,
    )
    exclude_internal_topics: bool = option(
        True, _FLAG, "Whether the pattern of a group's subscription leaves out internal topics."
    )

    def __new__(cls, *args: object, **options: object) -> Self:
        """Refuse a keyword that is no option with a better message than the TypeError of __init__."""
        _check_names(options)
        made = object.__new__(cls)
        object.__setattr__(made, "_named", frozenset(options))
        return made

    def __post_init__(self) -> None:
        for name, each in OPTIONS.items():
            object.__setattr__(self, name, each.check(getattr(self, name)))
        object.__setattr__(self, "addresses", parse_servers(self.bootstrap_servers))
        for name, timeout in derived_timeouts(self, self._named):
            object.__setattr__(self, name, timeout)
        check_agreement(self)

    @classmethod
    def from_properties(cls, properties: Mapping[str, object]) -> Self:
        """From the settings of a Java client: Kafka's dotted names, with text or Python values.

        >>> ClientConfig.from_properties({"bootstrap.servers": "localhost:9092", "linger.ms": "5"}).linger_ms
        5
        """
        given: dict[str, Any] = options_from(properties, OPTIONS)
        if "bootstrap_servers" not in given:
            raise ConfigurationError(
                "bootstrap.servers is missing: name at least one broker, as host:port",
                option="bootstrap_servers",
                allowed=OPTIONS["bootstrap_servers"].allowed,
                kafka_name="bootstrap.servers",
            )
        return cls(**given)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """From a .properties file of a Java client. An error has a note that names the file and the line."""
        properties: dict[str, object] = {}
        lines: dict[str, int] = {}
        try:
            for line, name, value in read_properties(path):
                if name in properties:
                    logger.warning("%s: line %d sets %s again, which counts", path, line, name)
                properties[name], lines[name] = value, line
            return cls.from_properties(properties)
        except ConfigurationError as error:
            option = error.option or ""
            found = lines.get(option) or lines.get(option.replace("_", "."))
            error.add_note(f"in {os.fspath(path)}" + (f", line {found}" if found else ""))
            raise

    def replace(self, **changes: Any) -> Self:
        """A config with some options changed, checked as a new one is."""
        named: dict[str, Any] = {name: getattr(self, name) for name in OPTIONS if name in self._named}
        return type(self)(**{**named, **changes})

    def names(self, option: str) -> bool:
        """Whether the option was given, and is not only what it is by default."""
        return option in self._named

    @classmethod
    def describe(cls) -> list[Option]:
        """Every option, with what documentation says about it."""
        return list(OPTIONS.values())

    @property
    def max_batch_bytes(self) -> int:
        """How large a batch grows: a request that holds it has to be sendable too."""
        return min(self.batch_size, self.max_request_size)

    def __repr__(self) -> str:
        changed = [
            f"{name}={value!r}"
            for name, each in OPTIONS.items()
            if (value := getattr(self, name)) != each.default
        ]
        return f"{type(self).__name__}({', '.join(changed)})"


OPTIONS: Final[Mapping[str, Option]] = options_of(ClientConfig)


def _check_names(given: Mapping[str, object]) -> None:
    for name in given:
        if name not in OPTIONS:
            raise no_option(name, OPTIONS, dotted=False)
