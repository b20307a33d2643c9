"""The id of a query, read from its checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.spark.options.parsing import OptionError
from ottla.spark.sink.query_id import query_id_of


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "check 100%"
    folder.mkdir()
    (folder / "metadata").write_text('{"id":"c54a0256-8daf-4c1e-b605-ad709139f1da"}')
    return folder


@pytest.mark.parametrize("form", ["{}", "{}/", "file:{}", "file://{}", "file://localhost{}"])
def test_it_is_found_under_every_name_of_a_local_folder(checkpoint: Path, form: str) -> None:
    assert query_id_of(form.format(checkpoint), required=True) == "c54a0256-8daf-4c1e-b605-ad709139f1da"


@pytest.mark.parametrize(
    ("checkpoint", "message"),
    [
        (None, "Give checkpointLocation as an option"),
        ("/nowhere/at/all", "cannot be read from /nowhere/at/all/metadata .*FileNotFoundError"),
        ("dbfs:/somewhere", "cannot be read from dbfs:/somewhere/metadata"),
    ],
)
def test_where_it_cannot_be_read_the_error_says_what_to_set(checkpoint: str | None, message: str) -> None:
    with pytest.raises(OptionError, match=f"{message}.*set ottla.sink.id") as raised:
        query_id_of(checkpoint, required=True)
    assert "ottla.delivery" in str(raised.value)
    assert query_id_of(checkpoint, required=False) is None


@pytest.mark.parametrize("contents", ["", "[]", "{}", '{"id":7}', '{"id":""}', "nonsense"])
def test_a_file_without_an_id_is_none(checkpoint: Path, contents: str) -> None:
    (checkpoint / "metadata").write_text(contents)
    with pytest.raises(OptionError, match=r"set ottla\.sink\.id"):
        query_id_of(str(checkpoint), required=True)
