from collections.abc import Mapping
from typing import Protocol, TypeAlias

from ottla._native.accumulator import Accumulator
from ottla._native.outgoing import EncodedBatch as EncodedBatch

class ArrowArrayExporter(Protocol):
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

class ArrowStreamExporter(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

ArrowExporter: TypeAlias = ArrowArrayExporter | ArrowStreamExporter

def encode_columns(
    columns: Mapping[str, ArrowExporter] | ArrowExporter,
    *,
    partitions: int,
    batch_size: int,
    now: int,
    unkeyed_partition: int | None = None,
    ignore_keys: bool = False,
    max_record_size: int = 2147483647,
    rows: bool = False,
    topic: str | None = None,
    accumulator: Accumulator | None = None,
) -> list[EncodedBatch]: ...
