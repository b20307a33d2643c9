from collections.abc import Mapping
from typing import Protocol, TypeAlias, final

from ottla._native.accumulator import Accumulator
from ottla._native.outgoing import EncodedBatch as EncodedBatch

class ArrowArrayExporter(Protocol):
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

class ArrowStreamExporter(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

ArrowExporter: TypeAlias = ArrowArrayExporter | ArrowStreamExporter

@final
class Rows:
    def __init__(self, columns: Mapping[str, ArrowExporter] | ArrowExporter) -> None: ...
    def __len__(self) -> int: ...
    @property
    def name_partitions(self) -> bool: ...
    def slices(
        self,
        *,
        partitions: int,
        most_bytes: int,
        most_rows: int | None = None,
        buffer: int = 9223372036854775807,
        unkeyed_partition: int | None = None,
        ignore_keys: bool = False,
        max_record_size: int = 2147483647,
        topic: str | None = None,
    ) -> list[tuple[int, int, int]]: ...

def encode_columns(
    columns: Mapping[str, ArrowExporter] | ArrowExporter | Rows,
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
    first: int = 0,
    count: int | None = None,
) -> list[EncodedBatch]: ...
