"""`python -m ottla.broker`: a cluster by itself."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.broker import Cluster
from tests.interop.confluent import leader, produce


@contextmanager
def standalone(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "ottla.broker", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            if process.poll() is None:
                process.kill()


def test_it_prints_its_address_and_serves_until_it_is_told_to_stop() -> None:
    with standalone("--port", "0", "--brokers", "3", "--topic", "orders:6:2", "--log", "requests") as (
        process,
        bootstrap,
    ):
        assert len(bootstrap.split(",")) == 3
        produce(bootstrap, "orders", [b"1"])
        assert leader(bootstrap, "orders", 5) in (1, 2, 3)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0
        assert "Traceback" not in errors
        assert "ProduceRequest" in errors


def test_logging_can_be_quiet() -> None:
    with standalone("--port", "0", "--log", "none") as (process, bootstrap):
        produce(bootstrap, "created-by-use", [b"1"])
        process.terminate()
        output, errors = process.communicate(timeout=120)
        assert (output, errors) == ("", "")
        assert process.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--topic", "orders:many"], "NAME:PARTITIONS"),
        (["--config", "num.partitions"], "NAME=VALUE"),
        (["--port", "0", "--config", "num.partition=2"], "did you mean 'num.partitions'"),
        (["--port", "0", "--config", "num.partitions=x"], "num.partitions"),
        (["--port", "0", "--release", "0.8"], "2.4"),
        (["--brokers", "0"], "at least one"),
        (["--brokers", "100000", "--port", "0"], "at most 1000"),
        (["--port", "0", "--topic", "or ders"], "or ders"),
    ],
)
def test_mistakes_are_named(arguments: list[str], said: str) -> None:
    with standalone(*arguments) as (process, _):
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 2
        assert said in errors
        assert "Traceback" not in errors


def test_a_port_in_use_is_named_with_what_to_do() -> None:
    with Cluster() as cluster:
        port = cluster.bootstrap.rpartition(":")[2]
        with standalone("--port", port) as (process, _):
            _, errors = process.communicate(timeout=120)
            assert process.returncode == 1
            assert "--port 0" in errors


def test_with_a_data_directory_everything_is_there_at_the_next_start(tmp_path: Path) -> None:
    arguments = ("--port", "0", "--data-dir", str(tmp_path), "--topic", "orders")
    with standalone(*arguments) as (process, bootstrap):
        produce(bootstrap, "orders", [b"1", b"2"])
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
        assert (process.returncode, errors) == (0, "")
    assert (tmp_path / "node-1" / ".kafka_cleanshutdown").exists()
    with Cluster(data_dir=tmp_path) as cluster:
        assert [record.value for record in cluster.dump("orders")] == [b"1", b"2"]


def test_a_data_directory_in_use_is_named_with_what_to_do(tmp_path: Path) -> None:
    with Cluster(data_dir=tmp_path), standalone("--port", "0", "--data-dir", str(tmp_path)) as (process, _):
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 2
        assert "is in use" in errors
        assert "Traceback" not in errors


def test_a_data_directory_that_is_none_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with standalone("--port", "0", "--data-dir", str(tmp_path / "file")) as (process, _):
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 2
        assert "Choose another" in errors
        assert "Traceback" not in errors
