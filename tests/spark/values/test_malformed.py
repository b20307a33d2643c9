"""What becomes of malformed rows."""

from __future__ import annotations

import pyarrow as pa

from ottla.spark.values.malformed import Malformed, Where, failure, raw_bytes
from ottla.spark.values.options import ValueOptions

WHERE = Where("orders", 3, pa.array([100, 105, 109]))
VALUES = pa.array([b'{"id":1}', b"{" + b"x" * 1000, b"{"], pa.binary())
OPTIONS = ValueOptions(format="json", malformed_column="bad")


def test_an_error_names_the_record_and_what_can_be_done() -> None:
    malformed = Malformed(pa.array([False, True, True]), 1, "a name in quotes is missing, at byte 1")
    text = str(failure(malformed, VALUES, WHERE, OPTIONS))
    assert text.startswith(
        "the value at offset 105 of orders-3 is malformed (value.format=json): "
        "a name in quotes is missing, at byte 1: b'{xxxx"
    )
    assert "(the first 200 of 1001 bytes). 1 more of the 3 values read with it are malformed." in text
    assert "Set value.malformed to drop" in text
    assert "to column to get their bytes in the column 'bad'" in text
    assert len(text) < 700


def test_the_column_has_the_bytes_of_malformed_rows_alone() -> None:
    malformed = Malformed(pa.array([False, True, False]), 1, "why")
    assert raw_bytes(malformed, VALUES).to_pylist() == [None, VALUES[1].as_py(), None]
    assert raw_bytes(malformed, VALUES).type == pa.binary()
    assert raw_bytes(None, VALUES).to_pylist() == [None, None, None]


def test_rows_that_are_well_are_kept() -> None:
    assert Malformed(pa.array([False, True, False]), 1, "why").kept().to_pylist() == [True, False, True]
