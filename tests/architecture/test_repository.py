"""Tests mirror the sources, and no file knows the machine it was written on."""

from pathlib import Path

import pytest

from tests.architecture.repository import (
    BESIDE_THE_TREE,
    HOSTS,
    distant_mirrors,
    stale_mirrors,
    stray_test_folders,
    traces_of_a_machine,
    tracked_files,
    unmirrored_packages,
    unmirrored_sources,
    unrelated_mirrors,
)
from tests.architecture.source import ROOT, SRC, read_tree, real_tree, report


def test_every_module_has_tests_of_its_name_or_a_line_that_says_where_it_is_tested() -> None:
    told = report(unmirrored_sources(SRC / "ottla", ROOT / "tests"))
    assert not told, told


def test_every_package_has_tests_of_its_name() -> None:
    assert report(unmirrored_packages(SRC / "ottla", ROOT / "tests")) == ""


def test_no_line_about_a_module_tested_elsewhere_is_out_of_date() -> None:
    told = report(stale_mirrors(SRC / "ottla", ROOT / "tests"))
    assert not told, told


def test_a_file_that_tests_another_module_imports_what_leads_to_it() -> None:
    told = report(unrelated_mirrors([*real_tree(), *read_tree(SRC, (".pyx",))], ROOT))
    assert not told, told


def test_no_module_is_tested_in_another_package() -> None:
    told = report(distant_mirrors())
    assert not told, told


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
    ("source", "wanted"),
    [
        ("wire/frames.py", "tests/wire/test_frames.py"),
        ("_native/held.pyx", "tests/native/test_held.py"),
        ("errors.py", "tests/test_errors.py"),
        ("_extras.py", "tests/test_extras.py"),
        ("broker/log/fs.py", "tests/broker/log/test_fs.py"),
        ("serde/json_.py", "tests/serde/test_json_.py"),
    ],
)
def test_a_module_without_tests_is_reported(tmp_path: Path, source: str, wanted: str) -> None:
    write(tmp_path, f"src/ottla/{source}", "tests/__init__.py", "tests/wire/test_other.py")
    told = report(unmirrored_sources(tmp_path / "src/ottla", tmp_path / "tests", {}))
    assert told == (
        f"src/ottla/{source}:1: has no {wanted}: write it, or add to tests/architecture/tested_through.py "
        f'where it is tested:\n    "{source}": "tests/...",'
    )
    write(tmp_path, wanted)
    assert report(unmirrored_sources(tmp_path / "src/ottla", tmp_path / "tests", {})) == ""


@pytest.mark.parametrize(
    "source",
    [
        "__init__.py",
        "__main__.py",
        "py.typed",
        "__pycache__/errors.cpython-311.pyc",
        "wire/kafka.schema",
        "x.pyi",
    ],
)
def test_what_is_no_module_wants_no_tests(tmp_path: Path, source: str) -> None:
    write(tmp_path, f"src/ottla/{source}", "tests/__init__.py")
    assert report(unmirrored_sources(tmp_path / "src/ottla", tmp_path / "tests", {})) == ""


def test_a_module_that_is_tested_through_another_has_a_line_with_a_file_that_exists(tmp_path: Path) -> None:
    write(tmp_path, "src/ottla/wire/runs.py", "tests/__init__.py")
    through = {"wire/runs.py": "tests/wire/test_messages.py"}
    told = report(unmirrored_sources(tmp_path / "src/ottla", tmp_path / "tests", through))
    assert told.endswith("says tests/wire/test_messages.py, which does not exist: mend the line")
    write(tmp_path, "tests/wire/test_messages.py")
    assert report(unmirrored_sources(tmp_path / "src/ottla", tmp_path / "tests", through)) == ""


def test_a_line_about_a_module_that_is_gone_or_has_its_own_tests_is_reported(tmp_path: Path) -> None:
    write(tmp_path, "src/ottla/wire/runs.py", "tests/wire/test_messages.py", "tests/wire/test_runs.py")
    through = {"wire/runs.py": "tests/wire/test_messages.py", "wire/gone.py": "tests/wire/test_messages.py"}
    told = report(stale_mirrors(tmp_path / "src/ottla", tmp_path / "tests", through)).splitlines()
    assert told == [
        "tests/architecture/tested_through.py:1: wire/runs.py has tests/wire/test_runs.py: delete its line",
        "tests/architecture/tested_through.py:1: there is no src/ottla/wire/gone.py: delete its line",
    ]


@pytest.mark.parametrize(
    ("test", "helper", "leads"),
    [
        ("from ottla.wire.runs import x", "", True),
        ("from ottla.wire import runs", "", True),
        ("from ottla.wire.decoder import x", "", True),
        ("from tests.wire.support import x", "import ottla.wire.decoder", True),
        ("from tests.wire import support", "def f():\n    from ottla.wire import decoder", True),
        ("from ottla.wire.frames import x", "", False),
        ("import tests.wire.support", "x = 'ottla.wire.runs'", False),
    ],
)
def test_a_line_names_tests_that_lead_to_the_module(
    tmp_path: Path, test: str, helper: str, leads: bool
) -> None:
    write(tmp_path, "src/ottla/__init__.py", "src/ottla/wire/runs.py", "src/ottla/wire/frames.py")
    (tmp_path / "src/ottla/wire/decoder.py").write_text("from ottla.wire.runs import x")
    write(tmp_path, "tests/wire/test_messages.py")
    (tmp_path / "tests/wire/test_messages.py").write_text(test)
    (tmp_path / "tests/wire/support.py").write_text(helper)
    through = {"wire/runs.py": "tests/wire/test_messages.py"}
    told = report(unrelated_mirrors(read_tree(tmp_path / "src"), tmp_path, through))
    assert told == (
        ""
        if leads
        else "tests/wire/test_messages.py:1: nothing here leads to ottla.wire.runs, "
        "which tests/architecture/tested_through.py says is tested here"
    )


@pytest.mark.parametrize(
    ("source", "test", "near"),
    [
        ("broker/metadata/image.py", "tests/broker/metadata/test_records.py", True),
        ("broker/metadata/image.py", "tests/broker/test_chaos.py", True),
        ("wire/records.py", "tests/wire/compression/test_gzip.py", True),
        ("_native/sticky.pyx", "tests/client/partitioners/test_sticky.py", True),
        ("broker/metadata/image.py", "tests/broker/cluster/test_node.py", False),
        ("broker/log/log.py", "tests/broker/login/test_users.py", False),
        ("broker/metadata/image.py", "tests/interop/test_consumers.py", False),
    ],
)
def test_a_line_that_leads_into_another_package_is_reported(source: str, test: str, near: bool) -> None:
    told = report(distant_mirrors({source: test}))
    assert (told == "") is near
    assert near or f"{source} is not tested in another package, as {test} is: write tests/" in told


@pytest.mark.parametrize(
    ("source", "wanted"),
    [("wire/frames.py", "tests/wire/"), ("_native/__init__.py", "tests/native/")],
)
def test_a_package_without_tests_is_reported(tmp_path: Path, source: str, wanted: str) -> None:
    write(tmp_path, f"src/ottla/{source}", "tests/__init__.py")
    told = report(unmirrored_packages(tmp_path / "src/ottla", tmp_path / "tests"))
    assert told.endswith(f":1: has no tests where one looks for them: put them in {wanted}")


def test_a_folder_of_tests_without_a_test_does_not_count(tmp_path: Path) -> None:
    write(tmp_path, "src/ottla/wire/frames.py", "tests/wire/__init__.py")
    assert "tests/wire/" in report(unmirrored_packages(tmp_path / "src/ottla", tmp_path / "tests"))


def test_a_package_inside_a_package_wants_tests_too(tmp_path: Path) -> None:
    write(
        tmp_path,
        "src/ottla/broker/log/fs.py",
        "src/ottla/broker/cluster/node.py",
        "tests/broker/cluster/test_node.py",
    )
    told = report(unmirrored_packages(tmp_path / "src/ottla", tmp_path / "tests"))
    assert told.startswith("src/ottla/broker/log:1: ")
    assert told.endswith("put them in tests/broker/log/")


@pytest.mark.parametrize(
    ("source", "test"),
    [
        ("wire/frames.py", "wire/test_frames.py"),
        ("_native/__init__.py", "native/test_crc32c.py"),
        ("broker/log/fs.py", "broker/log/test_fs.py"),
        ("broker/log/fs.py", "broker/test_log.py"),
        ("__init__.py", "__init__.py"),
    ],
)
def test_a_package_with_its_tests_passes(tmp_path: Path, source: str, test: str) -> None:
    write(tmp_path, f"src/ottla/{source}", f"tests/{test}")
    assert report(unmirrored_packages(tmp_path / "src/ottla", tmp_path / "tests")) == ""


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
