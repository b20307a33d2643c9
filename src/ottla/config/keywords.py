"""The options of a client as keyword arguments: what editors and type checkers know of `Client(..., linger_ms=5)`.

A type only. What an option means, its default and what it may be is in client.py; a test keeps the two the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict

__all__ = ["ClientOptions"]


class ClientOptions(TypedDict, total=False):
    """Every option of ClientConfig but the bootstrap servers."""

    # Who the client is
    client_id: str
    client_rack: str
    enable_metrics_push: bool

    # Connections
    security_protocol: Literal["PLAINTEXT"]
    client_dns_lookup: Literal["use_all_dns_ips"]
    send_buffer_bytes: int
    receive_buffer_bytes: int
    socket_connection_setup_timeout_ms: int
    socket_connection_setup_timeout_max_ms: int
    connections_max_idle_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int

    # Requests
    request_timeout_ms: int
    default_api_timeout_ms: int
    retries: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int

    # Metadata
    metadata_max_age_ms: int
    metadata_min_age_ms: int
    metadata_max_idle_ms: int
    metadata_recovery_strategy: Literal["rebootstrap", "none"]
    metadata_recovery_rebootstrap_trigger_ms: int
    allow_auto_create_topics: bool

    # Producing
    acks: Literal["all", -1, 0, 1]
    enable_idempotence: bool
    max_in_flight_requests_per_connection: int
    linger_ms: int
    batch_size: int
    max_request_size: int
    buffer_memory: int
    max_buffered_records: int
    max_block_ms: int
    delivery_timeout_ms: int
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    partitioner_ignore_keys: bool
    partitioner_adaptive_partitioning_enable: bool
    partitioner_availability_timeout_ms: int

    # Transactions
    transactional_id: str
    transaction_timeout_ms: int

    # Consuming
    auto_offset_reset: str
    isolation_level: Literal["read_uncommitted", "read_committed"]
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    max_poll_records: int
    check_crcs: bool

    # Consumer groups
    group_id: str
    group_instance_id: str
    group_protocol: Literal["classic", "consumer"]
    group_remote_assignor: str
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    partition_assignment_strategy: str | Sequence[str]
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    auto_commit_marks: bool
    block_rebalance_on_poll: bool
    exclude_internal_topics: bool
