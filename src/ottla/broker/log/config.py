"""What a log honours of a topic's configuration, typed, with Kafka's defaults.

Not here: parsing, validation and where a value comes from; that is ottla.broker.configs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NEVER: Final = 2**63 - 1
"""The largest long: what Kafka's defaults say where they mean no limit."""


@dataclass(frozen=True, slots=True)
class LogConfig:
    """A field is the topic config of that name; the last group are broker configs that reach into the log."""

    compact: bool = False
    delete: bool = True
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86400000
    file_delete_delay_ms: int = 60000
    flush_messages: int = NEVER
    flush_ms: int = NEVER
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = NEVER
    max_message_bytes: int = 1048588
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = NEVER
    message_timestamp_after_max_ms: int = 3600000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    retention_bytes: int = -1
    retention_ms: int = 604800000
    segment_bytes: int = 1073741824
    segment_index_bytes: int = 10485760
    segment_jitter_ms: int = 0
    segment_ms: int = 604800000

    producer_id_expiration_ms: int = 86400000
    transaction_partition_verification_enable: bool = True

    @property
    def longest_segment_ms(self) -> int:
        """How long a segment is the active one: what is to be compacted in time must not be in it for longer."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compact else self.segment_ms

    @property
    def uses_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"
