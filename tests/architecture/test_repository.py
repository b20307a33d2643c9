"""Tests mirror the sources, and no file knows the machine it was written on."""

from pathlib import Path

import pytest

from tests.architecture.repository import (
    BESIDE_THE_TREE,
    HOSTS,
    stray_test_folders,
    traces_of_a_machine,
    tracked_files,
    unmirrored_sources,
)
from tests.architecture.source import ROOT, SRC, report


def test_the_tests_mirror_the_sources() -> None:
    assert report(unmirrored_sources(SRC / "ottla", ROOT / "tests")) == ""


def test_no_folder_of_tests_has_lost_its_package() -> None:
    assert report(stray_test_folders(SRC / "ottla", ROOT / "tests")) == ""


def test_no_tracked_file_knows_the_machine_it_was_written_on() -> None:
    files = tracked_files(ROOT)
    if isinstance(files, str):
        pytest.skip(files)
    assert report(traces_of_a_machine(files, ROOT)) == ""


def test_every_folder_beside_the_tree_says_what_it_is_about() -> None:
    assert all(BESIDE_THE_TREE.values())


def write(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (
            "wire/frames.py",
            "src/ottla/wire:1: has no tests where one looks for them: put them in tests/wire/",
        ),
        (
            "_native/__init__.py",
            "src/ottla/_native:1: has no tests where one looks for them: put them in tests/native/",
        ),
        (
            "errors.py",
            "src/ottla/errors.py:1: has no tests where one looks for them: put them in tests/test_errors.py",
        ),
        (
            "_extras.py",
            "src/ottla/_extras.py:1: has no tests where one looks for them: put them in tests/test_extras.py",
        ),
    ],
)
def test_a_source_without_tests_is_reported(tmp_path: Path, source: str, told: str) -> None:
    write(tmp_path, f"src/ottla/{source}", "tests/__init__.py")
    assert report(unmirrored_sources(tmp_path / "src/ottla", tmp_path / "tests")) == told


def test_a_folder_of_tests_without_a_test_does_not_count(tmp_path: Path) -> None:
    write(tmp_path, "src/ottla/wire/frames.py", "tests/wire/__init__.py")
    assert "tests/wire/" in report(unmirrored_sources(tmp_path / "src/ottla", tmp_path / "tests"))


def test_a_package_inside_a_package_wants_tests_too(tmp_path: Path) -> None:
    write(
        tmp_path,
        "src/ottla/broker/log/fs.py",
        "src/ottla/broker/cluster/node.py",
        "tests/broker/cluster/test_node.py",
    )
    told = report(unmirrored_sources(tmp_path / "src/ottla", tmp_path / "tests"))
    assert told.startswith("src/ottla/broker/log:1: ")
    assert told.endswith("put them in tests/broker/log/")


@pytest.mark.parametrize(
    ("source", "test"),
    [
        ("wire/frames.py", "wire/test_frames.py"),
        ("_native/__init__.py", "native/test_crc32c.py"),
        ("errors.py", "test_errors.py"),
        ("_extras.py", "test_extras.py"),
        ("broker/log/fs.py", "broker/log/test_fs.py"),
        ("broker/log/fs.py", "broker/test_log.py"),
        ("__init__.py", "__init__.py"),
        ("__main__.py", "__init__.py"),
        ("py.typed", "__init__.py"),
        ("__pycache__/errors.cpython-311.pyc", "__init__.py"),
        ("wire/kafka.schema", "__init__.py"),
    ],
)
def test_a_source_with_its_tests_passes(tmp_path: Path, source: str, test: str) -> None:
    write(tmp_path, f"src/ottla/{source}", f"tests/{test}")
    assert report(unmirrored_sources(tmp_path / "src/ottla", tmp_path / "tests")) == ""


def test_a_folder_of_tests_without_its_package_is_reported(tmp_path: Path) -> None:
    write(tmp_path, "src/ottla/wire/frames.py", "tests/protocol/test_frames.py")
    told = report(stray_test_folders(tmp_path / "src/ottla", tmp_path / "tests"))
    assert told.startswith("tests/protocol:1: mirrors no package of src/ottla: rename it")


def test_folders_of_a_package_or_beside_the_tree_pass(tmp_path: Path) -> None:
    write(
        tmp_path,
        "src/ottla/_native/x.py",
        "tests/native/test_x.py",
        "tests/interop/test_y.py",
        "tests/data/z.bin",
    )
    assert report(stray_test_folders(tmp_path / "src/ottla", tmp_path / "tests")) == ""


def told_about(tmp_path: Path, text: str) -> str:
    file = tmp_path / "docs" / "page.md"
    file.parent.mkdir()
    file.write_text(f"first line\n{text}\n")
    return report(traces_of_a_machine([file], tmp_path))


# Joined here, because a test file is a tracked file as well.
PATHS = [
    "/" + "/".join(parts)
    for parts in (["root", ".cache"], ["work", "main"], ["home", "franz", "src"], ["Users", "franz", "src"])
]


@pytest.mark.parametrize("before", ["", "see ", "data_dir='", "file://", "PATH=x:"])
@pytest.mark.parametrize("path", PATHS)
def test_a_path_of_one_machine_is_reported(tmp_path: Path, before: str, path: str) -> None:
    told = told_about(tmp_path, before + path)
    assert told.startswith("docs/page.md:2: /")
    assert "make it relative" in told


@pytest.mark.parametrize("link", ["{}", "https://{}/simple", "index = 'http://{}'", "https://static.{}/x"])
@pytest.mark.parametrize("host", HOSTS)
def test_a_package_host_is_reported(tmp_path: Path, link: str, host: str) -> None:
    told = told_about(tmp_path, link.format(host))
    assert told.startswith(f"docs/page.md:2: {host} is a package host")


@pytest.mark.parametrize(
    "text",
    [
        "https://kafka.apache.org/protocol and https://github.com/apache/kafka",
        "src/root/x and ./work/x and ../home/franz/x and ~/work/x",
        "$(HOME)/work/x and ${ROOT}/root/x and /home/<you>/x",
        "/usr/bin/env and /tmp/x and /bin/sh and /homework/x/",
        "http://www.apache.org/licenses/",
        "pip install ottla from the package index; org.apache.kafka:kafka_2.13",
    ],
)
def test_links_and_relative_paths_pass(tmp_path: Path, text: str) -> None:
    assert told_about(tmp_path, text) == ""


def test_outside_a_checkout_there_is_a_reason_to_skip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert "git" in str(tracked_files(tmp_path))


def test_without_git_there_is_a_reason_to_skip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "git does not run here" in str(tracked_files(ROOT))
