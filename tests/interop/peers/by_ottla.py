"""Ottla's own client in the words of the others, for the tests that set it beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count as numbers
from typing import Any

import ottla
from tests.interop.peers.base import WITHIN_S, Outcome, Sent
from tests.interop.waiting import eventually


class Ottla:
    """The blocking client: the one that other threads of a test can use."""

    name = "ottla"
    writes_null_headers = True

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Sent], *, codec: str = "none", partition: int = 0
    ) -> list[int]:
        options: dict[str, Any] = {"compression_type": codec}
        with ottla.Client(bootstrap, **options) as kafka:
            pending = [
                kafka.produce(
                    topic, record.value, record.key, list(record.headers), partition, record.timestamp
                )
                for record in records
            ]
            return [delivery.result(WITHIN_S).offset for delivery in pending]

    def stream(self, bootstrap: str, topic: str, partitions: int, more: Callable[[int], bool]) -> Outcome:
        errors: list[str] = []
        sent = 0

        def delivered(delivery: Any) -> None:
            if delivery.error is not None:
                errors.append(repr(delivery.error))

        with ottla.Client(bootstrap) as kafka:
            for number in numbers():
                if not more(number):
                    break
                kafka.produce(topic, b"%d" % number, partition=number % partitions).add_done_callback(
                    delivered
                )
                sent += 1
            kafka.flush(WITHIN_S)
        return Outcome(sent, errors)

    def consume(
        self, bootstrap: str, topic: str, count: int, *, partition: int = 0, offset: int = 0
    ) -> list[Sent]:
        found: list[Sent] = []
        wanted = ottla.TopicPartition(topic, partition)
        with (
            ottla.Client(bootstrap, auto_offset_reset="none") as kafka,
            kafka.consume({wanted: offset}) as consumer,
        ):

            def read() -> bool:
                found.extend(map(_sent, consumer.poll(count - len(found), timeout=0.2)))
                return len(found) >= count

            eventually(read, f"{count} records of {topic}", WITHIN_S, every=0)
        return found

    def offset_at(self, bootstrap: str, topic: str, timestamp: int) -> int | None:
        with ottla.Client(bootstrap) as kafka:
            return kafka.admin.list_offsets(topic, ottla.Timestamp(timestamp))[
                ottla.TopicPartition(topic, 0)
            ].offset

    def range_of(self, bootstrap: str, topic: str, partition: int = 0) -> tuple[int, int]:
        wanted = ottla.TopicPartition(topic, partition)
        with ottla.Client(bootstrap) as kafka:
            first = kafka.admin.list_offsets(topic, "earliest")[wanted].offset
            end = kafka.admin.list_offsets(topic, "latest")[wanted].offset
        assert first is not None
        assert end is not None
        return first, end


def _sent(record: Any) -> Sent:
    return Sent(record.value, record.key, tuple(record.headers), record.timestamp)
