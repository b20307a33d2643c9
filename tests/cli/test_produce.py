"""`ottla produce`: what is read is stored, and what is not stored is reported."""

from __future__ import annotations

import re
import select
from pathlib import Path

from ottla.broker import Cluster, error
from tests.cli import shell
from tests.cli.conftest import Ottla


def values(cluster: Cluster, topic: str = "orders") -> list[bytes | None]:
    return sorted((record.value for record in cluster.dump(topic)), key=lambda value: value or b"")


def test_arguments_are_records_with_the_key_and_headers_of_the_command(
    cluster: Cluster, ottla: Ottla
) -> None:
    ottla("produce", "orders", "one", "two", "-k", "customer", "-H", "trace=7", "-H", "a=b=c", "-p", "1")
    records = cluster.dump("orders", 1)
    assert [(record.key, record.value) for record in records] == [
        (b"customer", b"one"),
        (b"customer", b"two"),
    ]
    assert records[0].headers == [("trace", b"7"), ("a", b"b=c")]


def test_lines_of_standard_input_are_records(cluster: Cluster, ottla: Ottla) -> None:
    result = ottla("produce", "orders", input=b"one\ntwo\n\xff\n")
    assert values(cluster) == [b"one", b"two", b"\xff"]
    assert result.stdout == ""
    assert result.stderr.startswith("3 records (7 B) to orders in ")


def test_quiet_means_that_success_is_silent(ottla: Ottla) -> None:
    assert ottla("produce", "orders", "-q", "one").output == ""


def test_a_file_with_keys_is_read_line_by_line(cluster: Cluster, ottla: Ottla, tmp_path: Path) -> None:
    (tmp_path / "orders").write_bytes(b"k1\tone\nk2\ttwo\n")
    ottla("produce", "orders", "-K", "\\t", "--file", str(tmp_path / "orders"))
    assert {record.key: record.value for record in cluster.dump("orders")} == {b"k1": b"one", b"k2": b"two"}


def test_json_lines_say_everything_about_a_record(cluster: Cluster, ottla: Ottla) -> None:
    line = b'{"key": "k", "value": null, "partition": 2, "timestamp": 1700000000000, "headers": {"h": "1"}}'
    ottla("produce", "orders", "--format", "json", input=line)
    (record,) = cluster.dump("orders", 2)
    assert (record.key, record.value, record.timestamp, record.headers) == (
        b"k",
        None,
        1_700_000_000_000,
        [("h", b"1")],
    )


def test_the_options_of_producing_reach_the_client(cluster: Cluster, ottla: Ottla) -> None:
    ottla("produce", "orders", "one", "--acks", "1", "-z", "lz4", "-X", "linger.ms=0")
    # With acks=1 the leader responds before the other replica has the record, and readers see it then.
    assert [record.value for record in cluster.wait_for_records("orders", 1)] == [b"one"]


def test_input_that_is_no_record_stops_with_its_line_after_what_came_before(
    cluster: Cluster, ottla: Ottla
) -> None:
    result = ottla("produce", "orders", "--format", "json", input=b'{"value": "one"}\n{}\n', code=1)
    assert 'ottla: line 2: there is no "value"' in result.stderr
    assert values(cluster) == [b"one"]


def test_a_record_that_a_broker_refuses_is_named_with_its_line(cluster: Cluster, ottla: Ottla) -> None:
    cluster.faults.add(api="Produce", action=error("TOPIC_AUTHORIZATION_FAILED"))
    result = ottla("produce", "orders", "one", code=1)
    assert "it was record 1 of the input" in result.stderr
    assert "1 failed" in result.stderr
    assert "Traceback" not in result.output


def test_a_record_that_is_too_large_is_named(cluster: Cluster, ottla: Ottla) -> None:
    result = ottla("produce", "orders", input=b"small\n" + b"x" * 2_000_000 + b"\n", code=1)
    assert "it was record 2 of the input" in result.stderr
    assert values(cluster) == [b"small"]


def test_a_partition_that_does_not_exist_is_an_error(ottla: Ottla) -> None:
    assert "99" in ottla("produce", "orders", "one", "-p", "99", "-X", "max.block.ms=1000", code=1).stderr


def test_a_misspelt_topic_is_an_error_with_the_closest(ottla: Ottla) -> None:
    result = ottla("produce", "order", "one", code=1)
    assert "there is no topic order: did you mean orders?" in result.stderr


def test_records_are_stored_while_the_input_is_still_open(cluster: Cluster) -> None:
    with shell.running(cluster.bootstrap, "produce", "orders") as process:
        assert process.stdin is not None
        process.stdin.write(b"one\n")
        process.stdin.flush()
        cluster.wait_for_records("orders", 1, shell.WITHIN)
        _, errors = process.communicate(b"two\n", timeout=shell.WITHIN)
        assert process.returncode == 0, errors
    assert values(cluster) == [b"one", b"two"]


def test_ctrl_c_ends_reading_with_a_summary(cluster: Cluster) -> None:
    with shell.running(cluster.bootstrap, "produce", "orders") as process:
        assert process.stdin is not None
        process.stdin.write(b"one\n")
        process.stdin.flush()
        cluster.wait_for_records("orders", 1, shell.WITHIN)
        code, _, errors = shell.interrupt(process)
        assert code == 130
        assert errors.startswith(b"1 record (")
    assert values(cluster) == [b"one"]


def test_a_person_sees_how_it_goes_on(cluster: Cluster) -> None:
    with (
        shell.terminal() as (screen, terminal),
        shell.running(cluster.bootstrap, "produce", "orders", stderr=terminal) as process,
    ):
        assert process.stdin is not None
        seen = b""
        while b"records" not in seen:
            process.stdin.write(b"one\n" * 100)
            process.stdin.flush()
            seen += screen.read(1000) if select.select([screen], [], [], 0.0)[0] else b""
        process.communicate(timeout=shell.WITHIN)
        assert process.returncode == 0
        assert re.match(rb"\r[\d,]+ records, \d.* K?B ", seen)


def test_many_records_go_through(cluster: Cluster) -> None:
    lines = b"".join(b"%07d\n" % number for number in range(100_000))
    shell.ottla(cluster.bootstrap, "produce", "orders", "-X", "buffer.memory=1000000", input=lines)
    assert len(cluster.dump("orders")) == 100_000
