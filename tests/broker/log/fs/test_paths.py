"""Paths inside a volume lead nowhere else."""

from __future__ import annotations

import pytest

from ottla.broker.log.fs.paths import check_directory, split_path


def test_a_path_is_a_directory_and_a_name() -> None:
    assert split_path("a/b/c") == ("a/b", "c")
    assert split_path("c") == ("", "c")


@pytest.mark.parametrize(
    "path", ["", "/", "a/", "/a", "../a", "a/..", "a/../b", "./a", "a//b", ".", "a\0b", "\0/b"]
)
def test_a_path_that_leads_out_of_the_volume_or_names_no_file_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="is no path"):
        split_path(path)


def test_the_volume_itself_is_a_directory_and_what_lies_outside_is_not() -> None:
    check_directory("")
    check_directory("a/b")
    for outside in ("/a", "..", "a/..", "a/"):
        with pytest.raises(ValueError, match="is no path inside a volume"):
            check_directory(outside)
