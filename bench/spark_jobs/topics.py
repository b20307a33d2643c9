"""The topics that are read and written: made, filled evenly over their partitions, counted."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Literal, TypeAlias

import fastavro
import pyarrow

import ottla
from bench.clients.job import Codec, Job, values
from bench.spark_jobs.job import AVRO_SCHEMA

Content: TypeAlias = Literal["text", "json", "avro"]

# As often as it takes: a codec does not look so far back.
_ROWS_AT_ONCE = 64_000
# What the other columns take of an Avro value, about.
_AVRO_HEAD = 23
_COUNTRIES = ("DE", "FR", "IT", "US")


class Topics:
    """Topics of one cluster; each gets a new name."""

    def __init__(self, client: ottla.Client) -> None:
        self._client = client
        self._made = 0

    def create(self, partitions: int = 1) -> str:
        self._made += 1
        name = f"bench-{self._made}"
        self._client.admin.create_topic(name, partitions=partitions)
        return name

    def delete(self, name: str) -> None:
        self._client.admin.delete_topic(name)

    def filled(self, rows: int, partitions: int, size: int, codec: Codec, content: Content = "text") -> str:
        """A topic with so many rows: the same for every reader, and as compressible as text is."""
        name = self.create(partitions)
        value = _values(size, content)
        numbers = range(min(_ROWS_AT_ONCE, rows))
        table = {
            "value": pyarrow.array(map(value, numbers), pyarrow.binary()),
            "partition": pyarrow.array((number % partitions for number in numbers), pyarrow.int32()),
        }
        batch = pyarrow.record_batch(table)
        with ottla.Client(self._client.config.bootstrap_servers, compression_type=codec) as producer:
            for start in range(0, rows, _ROWS_AT_ONCE):
                producer.produce_batch(name, batch.slice(0, rows - start))
        return name

    def count(self, name: str) -> int:
        """How many records have been written to it."""
        return sum(end.offset or 0 for end in self._client.admin.list_offsets(name).values())


def _values(size: int, content: Content) -> Callable[[int], bytes]:
    some = values(Job("", "", 0, size))
    if content == "text":
        return lambda number: some[number % len(some)]
    if content == "avro":
        return _avro_values(some, size)

    def order(number: int) -> bytes:
        """JSON of the columns in `bench.spark_jobs.job`; the note makes it as long as it shall be."""
        head = (
            f'{{"id":{number},"customer":"c-{number % 5_000}","amount":{number % 1_000}.{number % 90 + 10},'
            f'"country":"{_COUNTRIES[number % len(_COUNTRIES)]}","note":"'
        ).encode()
        return head + some[number % len(some)][: max(size - len(head) - 2, 0)] + b'"}'

    return order


def _avro_values(some: list[bytes], size: int) -> Callable[[int], bytes]:
    """The same columns, and as many bytes, as Avro."""
    schema = fastavro.parse_schema(json.loads(AVRO_SCHEMA))

    def order(number: int) -> bytes:
        out = io.BytesIO()
        row = {
            "id": number,
            "customer": f"c-{number % 5_000}",
            "amount": number % 1_000 + (number % 90 + 10) / 100,
            "country": _COUNTRIES[number % len(_COUNTRIES)],
            "note": some[number % len(some)][: max(size - _AVRO_HEAD, 0)].decode(),
        }
        fastavro.schemaless_writer(out, schema, row)
        return out.getvalue()

    return order
