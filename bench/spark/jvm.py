"""How the JVM connector is set up when it is measured at its best: in one place, with the reasons.

Its defaults are for a consumer that stays and for small batches of records, and hide what it can do in a batch job.
Where more than one set of settings stands here, each is measured in the same run, and the fastest is what
this connector is held against. Whatever the settings, `acks` stays `all` and no guarantee is given up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

Settings: TypeAlias = Mapping[str, Mapping[str, str]]
"""By the name of the case: `tuned`, or `tuned_` and what is special."""

DEFAULT: Final[Mapping[str, str]] = {}

_READ: Final = {
    # At the end of each partition the broker holds back its answer to a fetch that finds nothing, 500 ms by default.
    "kafka.fetch.max.wait.ms": "10",
    # 500 by default; a poll for every 500 records of 100 bytes is most of what the connector does.
    "kafka.max.poll.records": "5000",
    # 1 MB by default, so that each request brings 10,000 records of 100 bytes.
    "kafka.max.partition.fetch.bytes": str(8 * 1024 * 1024),
}

# Nothing is told to brokers or to JMX about clients that live for a second. In streams this is worth a sixth.
_QUIET: Final = {
    "kafka.enable.metrics.push": "false",
    "kafka.auto.include.jmx.reporter": "false",
}

# What each gains is within the noise: so both are measured, and the faster counts. Tried beside these, on local[1]
# with four partitions, and without a clear gain: fetch.max.wait.ms 1, fetch.min.bytes 1 MB, max.partition.fetch.bytes
# 1, 4 and 32 MB, max.poll.records so large that one poll empties a response. On local[2] with 64 partitions:
# fetch.max.wait.ms 1, max.partition.fetch.bytes 1 MB, and _MORE without the receive buffer; the last, with
# fetch.max.wait.ms 1 too, also with 200. A spark.kafka.consumer.cache.capacity of 1000 was tried once with 200.
_MORE: Final = {
    **_QUIET,
    # 64 KB by default.
    "kafka.receive.buffer.bytes": str(1024 * 1024),
    "kafka.max.poll.records": "50000",
}

READS: Final[Settings] = {"tuned": _READ, "tuned_more": {**_READ, **_MORE}}

_WRITE: Final = {
    # 0 by default: what is there goes at once, in batches that are far from full.
    "kafka.linger.ms": "20",
    # 16 KB by default, 160 records of 100 bytes.
    "kafka.batch.size": str(256 * 1024),
}

# Larger still, as far as a request may be by default, with room for many of them; whichever is faster counts. Tried
# beside these, without a clear gain: linger.ms 5 and 100, batch.size 64 KB and 512 KB, buffer.memory 256 MB, one
# request in flight, no metrics.
_LARGER: Final = {
    "kafka.batch.size": "1000000",
    "kafka.buffer.memory": str(128 * 1024 * 1024),
    "kafka.send.buffer.bytes": str(1024 * 1024),
}

WRITES: Final[Settings] = {"tuned": _WRITE, "tuned_more": {**_WRITE, **_LARGER}}

# Not the lingering of a large write: every micro-batch would wait for it. Tried beside these, without a clear gain:
# fetch.max.wait.ms 1, linger.ms 1, and what else _MORE has.
STREAMS: Final[Settings] = {"tuned": _READ, "tuned_more": {**_READ, **_QUIET}}
