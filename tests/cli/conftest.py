"""A cluster for the commands, and the commands in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from typer.testing import CliRunner, Result

from ottla.broker import Cluster
from ottla.cli.app import app

Ottla = Callable[..., Result]


@pytest.fixture(autouse=True)
def every_command_in_this_process(own_logging: None) -> None:
    """May set up logging."""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2, topics={"orders": 3}, config={"auto.create.topics.enable": "false"}) as cluster:
        yield cluster


@pytest.fixture
def ottla(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Ottla:
    """Runs a command against the cluster; it has to end with the exit code that is expected."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP", cluster.bootstrap)

    def run(*arguments: str, input: bytes = b"", code: int = 0) -> Result:
        result = CliRunner().invoke(app, arguments, input=input)
        assert result.exit_code == code, (result.output, result.exception)
        return result

    return run
