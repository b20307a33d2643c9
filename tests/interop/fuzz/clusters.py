"""Both brokers, with settings under which neither the clock nor chance has a say in what a script sees."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from ottla.broker import Cluster
from tests.interop.apache import ApacheKafka
from tests.interop.comparison.settings import SETTINGS
from tests.interop.fuzz.differ import Pair

_A_DAY: Final = "86400000"

FUZZ_SETTINGS: Final[dict[str, str]] = {
    **SETTINGS,
    "auto.create.topics.enable": "false",
    # Scripts write records of 2033, whose producers do not expire.
    "log.message.timestamp.after.max.ms": "9223372036854775807",
    # Those with records of 2020 do, soon.
    "producer.id.expiration.check.interval.ms": "300",
    # Nothing else is cleaned up while a script runs.
    "log.retention.check.interval.ms": _A_DAY,
    "log.cleaner.backoff.ms": _A_DAY,
    "max.incremental.fetch.session.cache.slots": "1000000",
}


@contextmanager
def both(workers: int = 1) -> Iterator[list[Pair]]:
    """One cluster of each kind, and several pairs of connections to them."""
    with (
        ApacheKafka(nodes=1, properties=FUZZ_SETTINGS) as kafka,
        Cluster(brokers=1, config=FUZZ_SETTINGS) as ottla,
        ExitStack() as pairs,
    ):
        yield [
            pairs.enter_context(Pair(kafka.bootstrap, ottla.bootstrap, worker)) for worker in range(workers)
        ]
