"""Where the options of a command's client come from, and what counts more."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from ottla.cli.options import client_config, pair
from ottla.errors import ConfigurationError


def config_of(
    bootstrap: str | None = None,
    file: Path | None = None,
    options: list[str] | None = None,
    own: dict[str, str] | None = None,
    environment: dict[str, str] | None = None,
) -> tuple[tuple[str, ...], int]:
    config = client_config(bootstrap, file, options, own or {}, environment or {})
    return tuple(config.bootstrap_servers), config.linger_ms


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=file:1\nlinger.ms=2\n")
    return path


def test_without_anything_it_is_the_broker_on_this_machine() -> None:
    assert config_of() == (("localhost:9092",), 10)


def test_the_environment_names_the_cluster() -> None:
    assert config_of(environment={"OTTLA_BOOTSTRAP": "env:1"})[0] == ("env:1",)
    assert config_of(environment={"OTTLA_BOOTSTRAP": ""})[0] == ("localhost:9092",)


def test_a_file_counts_more_than_the_environment(file: Path) -> None:
    assert config_of(file=file, environment={"OTTLA_BOOTSTRAP": "env:1"}) == (("file:1",), 2)


def test_the_command_line_counts_more_than_a_file(file: Path) -> None:
    assert config_of("line:1,line:2", file, ["linger.ms=3"]) == (("line:1", "line:2"), 3)


def test_what_a_command_sets_counts_more_than_a_file_and_less_than_x(file: Path) -> None:
    assert config_of(file=file, own={"linger.ms": "4"})[1] == 4
    assert config_of(file=file, own={"linger.ms": "4"}, options=["linger.ms=5"])[1] == 5


def test_a_misspelt_option_is_an_error_with_the_closest() -> None:
    with pytest.raises(ConfigurationError, match=r"did you mean linger\.ms\?"):
        config_of(options=["linger.mss=3"])


@pytest.mark.parametrize("text", ["linger.ms", "=3", ""])
def test_a_pair_has_two_parts(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="expected NAME=VALUE"):
        pair(text, "-X")


def test_a_value_may_hold_the_separator() -> None:
    assert pair("a=b=c", "-X") == ("a", "b=c")
