"""The command: its options, what it refuses, its exit codes, and that it only reads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.broker import Cluster
from tests.broker.dump.support import dump, dump_json, segments, written_log


def shell(*arguments: object, program: tuple[str, ...] = ("ottla.broker", "dump")) -> tuple[int, str, str]:
    command = [sys.executable, "-W", "error", "-m", *program, *(str(each) for each in arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("program", [("ottla.broker", "dump"), ("ottla", "broker", "dump")])
def test_both_commands_dump(tmp_path: Path, program: tuple[str, ...]) -> None:
    first = segments(written_log(tmp_path))[0]
    code, out, err = shell(first, program=program)
    assert (code, err) == (0, "")
    assert out.splitlines() == dump(first).lines


@pytest.mark.parametrize("program", [("ottla.broker", "dump"), ("ottla", "broker", "dump")])
def test_what_cannot_be_read_is_one_line_and_exit_code_2(tmp_path: Path, program: tuple[str, ...]) -> None:
    missing = tmp_path / "00000000000000000000.log"
    code, out, err = shell(missing, program=program)
    name = "python -m ottla.broker dump" if program[0] == "ottla.broker" else "ottla broker dump"
    assert (code, out) == (2, f"Dumping {missing}\n")
    assert err == f"{name}: {missing}: no such file or directory\n"


def test_a_reader_that_has_enough_is_no_error(tmp_path: Path) -> None:
    log = written_log(tmp_path)
    command = f"{sys.executable} -m ottla.broker dump {log} --print-data-log | head -n 1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Dumping ")


def test_the_options_of_kafkas_tool_name_files_too(tmp_path: Path) -> None:
    first, second, *_ = segments(written_log(tmp_path))
    assert dump("--files", f"{first},{second}").lines == dump(first, second).lines


def test_every_path_is_dumped_and_the_worst_decides_the_exit_code(tmp_path: Path) -> None:
    first, second, *_ = segments(written_log(tmp_path))
    with second.open("ab") as file:
        file.write(b"torn")
    assert [dump(first).code, dump(first, second).code] == [0, 1]
    done = dump(second, tmp_path / "nothing", first)
    assert done.code == 2
    assert done.complaints == [f"dump: {tmp_path / 'nothing'}: no such file or directory"]
    assert f"Dumping {first}" in done.lines


def test_a_file_of_no_kind_that_is_known_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello")
    done = dump(path)
    assert done.code == 2
    assert "not a file of a log directory" in done.complaints[0]


def test_a_directory_without_logs_is_refused(tmp_path: Path) -> None:
    done = dump(tmp_path)
    assert (done.code, done.lines) == (2, [])
    assert done.complaints == [f"dump: {tmp_path}: neither a log nor a directory with logs"]


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    os.mkfifo(path)
    assert dump(path).complaints == [f"dump: {path}: not a regular file"]


def test_the_directory_of_a_cluster_stands_for_those_of_its_nodes(tmp_path: Path) -> None:
    with Cluster(2, topics=["orders"], data_dir=tmp_path):
        pass
    of_nodes = [tmp_path / name for name in ("controller", "node-1", "node-2")]
    for options in ([], ["--print-data-log"]):
        done = dump(tmp_path, *options)
        assert (done.code, done.complaints) == (0, [])
        assert done.lines == dump(*of_nodes, *options).lines


def test_a_number_of_bytes_that_is_too_large_is_said_to_be_so(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        dump("x", "--max-bytes", "9" * 13)
    assert "expected a number of bytes, of at most 12 digits" in capsys.readouterr().err


def test_an_index_beside_a_pipe_is_shown_and_not_verified(tmp_path: Path) -> None:
    index = tmp_path / "00000000000000000000.index"
    index.write_bytes(bytes([0, 0, 0, 1, 0, 0, 0, 1]))
    os.mkfifo(index.with_suffix(".log"))
    code, out, err = shell(index)
    assert (code, err) == (0, "")
    assert "is not verified" in out


def test_links_that_lead_back_to_their_directory_are_not_followed_again(tmp_path: Path) -> None:
    log = written_log(tmp_path)
    (tmp_path / "meta.properties").write_text("version=1\n")
    (tmp_path / "empty-0").mkdir()
    for name in ("links-0", "links-1"):
        for directory in (tmp_path, log, tmp_path / "empty-0"):
            (directory / name).symlink_to(tmp_path)
    code, out, _ = shell(tmp_path, "--index-sanity-check")
    dumped = [line for line in out.splitlines() if line.startswith(f"Dumping {log}/")]
    assert code == 2
    assert len(dumped) == len(set(dumped)) == len(list(log.glob("*.index")) + list(log.glob("*.timeindex")))


def test_an_entry_that_cannot_be_looked_at_is_one_line(tmp_path: Path) -> None:
    link = tmp_path / "orders-0"
    link.symlink_to("x" * 300)
    done = dump(tmp_path)
    assert (done.code, done.complaints) == (2, [f"dump: {tmp_path}: {link}: File name too long"])


def test_an_error_of_the_system_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = segments(written_log(tmp_path))[0]

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    done = dump(path)
    assert (done.code, done.complaints) == (2, [f"dump: {path}: Permission denied"])


def test_a_path_that_the_system_refuses_is_one_line() -> None:
    done = dump("x" * 5000)
    assert (done.code, done.lines) == (2, [])
    assert done.complaints[0].endswith(": File name too long")


def test_nothing_is_written_and_no_lock_is_taken(tmp_path: Path) -> None:
    log = written_log(tmp_path)
    for path in (*log.iterdir(), log):
        path.chmod(0o555)
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in log.iterdir()}
    try:
        assert dump(log).code == dump(log, "--print-data-log").code == 0
        assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in log.iterdir()} == before
    finally:
        log.chmod(0o755)


def test_json_is_an_object_per_line_with_the_file(tmp_path: Path) -> None:
    log = written_log(tmp_path)
    for path in log.iterdir():
        done = dump_json(path, "--print-data-log")
        assert {each["file"] for each in done.objects} <= {str(path)}
        assert all(each["kind"] for each in done.objects)


@pytest.mark.parametrize(
    "arguments",
    [[], ["--max-bytes", "-1", "x"], ["--offsets-decoder", "--transaction-log-decoder", "x"], ["--nothing"]],
)
def test_mistakes_in_the_command_are_exit_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        dump(*arguments)
    assert ended.value.code == 2
    assert "dump: error: " in capsys.readouterr().err
