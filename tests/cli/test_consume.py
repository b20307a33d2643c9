"""`ottla consume`: what is stored is written, up to where it should end, and cleanly."""

from __future__ import annotations

import json
import subprocess

import pytest

from ottla.broker import Cluster
from tests.cli import shell
from tests.cli.conftest import Ottla


@pytest.fixture
def stored(cluster: Cluster) -> Cluster:
    for partition in range(3):
        cluster.seed(
            "orders", [(b"k%d" % number, b"%d-%d" % (partition, number)) for number in range(4)], partition
        )
    return cluster


def lines(output: str) -> list[str]:
    return sorted(output.splitlines())


def test_everything_there_is_with_until_end(stored: Cluster, ottla: Ottla) -> None:
    result = ottla("consume", "orders", "--until", "end")
    assert lines(result.stdout) == [f"{partition}-{number}" for partition in range(3) for number in range(4)]
    assert result.stderr == ""


def test_a_partition_between_two_offsets(stored: Cluster, ottla: Ottla) -> None:
    result = ottla("consume", "orders", "-p", "1", "--from", "1", "--until", "3")
    assert result.stdout.splitlines() == ["1-1", "1-2"]


def test_so_many_records(stored: Cluster, ottla: Ottla) -> None:
    result = ottla("consume", "orders", "-p", "2", "--from", "earliest", "-n", "2", "--format", "%o %k=%v")
    assert result.stdout.splitlines() == ["0 k0=2-0", "1 k1=2-1"]


def test_a_time_in_the_past_is_before_everything(stored: Cluster, ottla: Ottla) -> None:
    assert len(lines(ottla("consume", "orders", "--from", "-1h", "--until", "end").stdout)) == 12


def test_an_empty_topic_ends_at_once(cluster: Cluster, ottla: Ottla) -> None:
    assert ottla("consume", "orders", "--until", "end").stdout == ""


def test_topics_by_pattern(stored: Cluster, ottla: Ottla) -> None:
    stored.create_topic("payments")
    stored.seed("payments", [b"paid"])
    result = ottla("consume", "^pay.*", "--regex", "--until", "end")
    assert result.stdout == "paid\n"


def test_json_goes_from_one_topic_to_another(stored: Cluster, ottla: Ottla) -> None:
    stored.create_topic("copy", 3)
    written = ottla("consume", "orders", "--until", "end", "--format", "json").stdout_bytes
    assert json.loads(written.splitlines()[0])["topic"] == "orders"
    ottla("produce", "copy", "--format", "json", input=written)
    for partition in range(3):
        copied = [(record.key, record.value, record.timestamp) for record in stored.dump("copy", partition)]
        original = [
            (record.key, record.value, record.timestamp) for record in stored.dump("orders", partition)
        ]
        assert copied == original


def test_a_misspelt_topic_is_an_error_with_the_closest_and_not_created(
    cluster: Cluster, ottla: Ottla
) -> None:
    result = ottla("consume", "ordes", code=1)
    assert result.stderr == "ottla: there is no topic ordes: did you mean orders?\n"


def test_a_partition_that_does_not_exist_is_an_error(ottla: Ottla) -> None:
    result = ottla("consume", "orders", "-p", "3", code=1)
    assert result.stderr == "ottla: orders has no partition 3, only 0 to 2\n"


def test_a_cluster_that_cannot_be_reached_is_one_line(ottla: Ottla, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.cli.options._REACH_SECONDS", 1.0)
    result = ottla("consume", "orders", "-b", "127.0.0.1:1", code=1)
    assert result.stderr.startswith("ottla: ")
    assert "127.0.0.1:1" in result.stderr
    assert result.stderr.count("\n") == 1


def test_records_are_written_as_they_arrive_until_ctrl_c(stored: Cluster) -> None:
    with shell.running(stored.bootstrap, "consume", "orders", "-p", "0", "--from", "earliest") as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(4)] == [b"0-%d\n" % number for number in range(4)]
        stored.seed("orders", [b"later"])
        assert process.stdout.readline() == b"later\n"
        assert shell.interrupt(process) == (0, b"", b"")


def test_ctrl_c_before_the_end_that_was_given_is_a_failure(stored: Cluster) -> None:
    arguments = ("consume", "orders", "-p", "0", "--from", "earliest", "-n", "100")
    with shell.running(stored.bootstrap, *arguments) as process:
        assert process.stdout is not None
        process.stdout.readline()
        code, _, errors = shell.interrupt(process)
        assert (code, errors) == (130, b"")


def test_a_reader_that_has_enough_is_no_failure(cluster: Cluster) -> None:
    cluster.seed("orders", [b"x" * 1000] * 5_000)
    with shell.running(cluster.bootstrap, "consume", "orders", "--until", "end") as process:
        with subprocess.Popen(["head", "-n", "1"], stdin=process.stdout, stdout=subprocess.PIPE) as head:
            # This process's own end of the pipe would keep it open.
            assert process.stdout is not None
            process.stdout.close()
            assert head.communicate(timeout=shell.WITHIN)[0] == b"x" * 1000 + b"\n"
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait(timeout=shell.WITHIN) == 0
