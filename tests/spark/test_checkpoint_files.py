"""Files of a checkpoint, by the names that Hadoop has for places."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.spark.checkpoint_files import contents, local_path, numbered


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}", "file://localhost{}"])
def test_a_folder_of_numbered_files_is_found_under_every_name(tmp_path: Path, form: str) -> None:
    for name in ("0", "1", ".1.crc", "2.tmp"):
        (tmp_path / name).write_text(name)
    place = form.format(tmp_path)
    found = numbered(place)
    assert sorted(found) == [0, 1]
    assert all(when is not None for when in found.values())
    assert contents(f"{place}/1") == b"1"
    assert numbered(f"{place}/missing") == {}


def test_other_stores_are_not_this_machine() -> None:
    assert local_path("/a/b") == local_path("file:/a/b") == Path("/a/b")
    assert local_path("s3a://bucket/a") is None
    with pytest.raises(ValueError, match="dbfs"):
        contents("dbfs:/a/0")
