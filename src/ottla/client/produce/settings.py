"""What the parts of the produce path need of the configuration, in their units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.client.backoff import Backoff
from ottla.config import ClientConfig
from ottla.runtime import Random
from ottla.wire.batch_header import BATCH_OVERHEAD
from ottla.wire.compression import Compression

_ACKS: Final = {"all": -1, -1: -1, 0: 0, 1: 1}


@dataclass(frozen=True, slots=True)
class ProduceSettings:
    """Times in seconds, sizes in bytes."""

    client_id: str
    transactional_id: str | None
    acks: int
    is_idempotent: bool
    max_in_flight: int
    max_request_size: int
    max_batch_bytes: int
    buffer_memory: int
    max_buffered_records: int | None
    request_timeout_ms: int
    linger: float
    delivery_timeout: float
    max_idle: float
    max_block: float
    api_timeout: float
    retries: int
    codec: int
    codec_level: int | None
    backoff: Backoff

    @property
    def max_unknown(self) -> float:
        """How long records wait for a topic to be known: that is a call to the cluster, however it is begun."""
        return min(self.api_timeout, self.delivery_timeout)

    @classmethod
    def of(cls, config: ClientConfig, random: Random) -> ProduceSettings:
        return cls(
            client_id=config.client_id,
            transactional_id=config.transactional_id or None,
            acks=_ACKS[config.acks],
            is_idempotent=config.enable_idempotence,
            max_in_flight=config.max_in_flight_requests_per_connection,
            max_request_size=config.max_request_size,
            # Kafka's batch.size=0 is for a batch per record, and a batch has a header at the least.
            max_batch_bytes=max(config.max_batch_bytes, BATCH_OVERHEAD + 1),
            buffer_memory=config.buffer_memory,
            max_buffered_records=config.max_buffered_records if config.max_buffered_records > 0 else None,
            request_timeout_ms=config.request_timeout_ms,
            linger=config.linger_ms / 1000,
            delivery_timeout=config.delivery_timeout_ms / 1000,
            max_idle=config.metadata_max_idle_ms / 1000,
            max_block=config.max_block_ms / 1000,
            api_timeout=config.default_api_timeout_ms / 1000,
            retries=config.retries,
            codec=Compression[config.compression_type.upper()],
            codec_level=_level(config),
            backoff=Backoff(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000, random),
        )


def _level(config: ClientConfig) -> int | None:
    """None leaves it to the codec."""
    if config.compression_type == "gzip":
        return None if config.compression_gzip_level == -1 else config.compression_gzip_level
    if config.compression_type == "lz4":
        return config.compression_lz4_level
    if config.compression_type == "zstd":
        return config.compression_zstd_level
    return None
