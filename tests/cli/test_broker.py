"""`ottla broker`: `python -m ottla.broker` under the command's name."""

from __future__ import annotations

from ottla.broker import Cluster
from tests.cli.shell import interrupt, ottla, running


def test_it_prints_its_address_and_serves_until_ctrl_c() -> None:
    with running("", "broker", "--port", "0", "--brokers", "2", "--topic", "orders:3:2") as process:
        assert process.stdout is not None
        assert len(process.stdout.readline().split(b",")) == 2
        assert interrupt(process) == (0, b"", b"")


def test_its_mistakes_are_named_under_the_name_it_was_called_by() -> None:
    done = ottla("", "broker", "--port", "0", "--config", "num.partition=2", code=2)
    assert done.stderr.startswith(b"ottla broker: ")
    assert b"did you mean 'num.partitions'" in done.stderr


def test_a_port_in_use_is_an_error_that_says_what_to_do() -> None:
    with Cluster() as cluster:
        port = cluster.bootstrap.rpartition(":")[2]
        assert b"--port 0" in ottla("", "broker", "--port", port, code=1).stderr
