"""The commands put together: help, and mistakes in the usage."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from ottla import __version__
from ottla.cli.app import app, run

COMMANDS = [
    ["broker"],
    ["produce"],
    ["consume"],
    ["topic"],
    *(["topic", each] for each in ("list", "describe", "create", "delete", "alter", "partitions")),
    ["group"],
    *(["group", each] for each in ("list", "describe", "lag", "reset", "delete", "delete-offsets")),
    ["pipeline"],
    ["pipeline", "recover"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example_of_itself(command: list[str]) -> None:
    result = CliRunner().invoke(app, [*command, "--help"])
    assert result.exit_code == 0
    assert re.search(rf"^ +(.*\| )?ottla {' '.join(command)}( |$)", result.output, re.MULTILINE)


def test_without_a_command_it_shows_what_there_is() -> None:
    result = CliRunner().invoke(app, [])
    assert "ottla consume orders --from earliest" in result.output


def test_it_has_the_version_of_the_package() -> None:
    assert CliRunner().invoke(app, ["--version"]).output == f"ottla {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["consum"], "Did you mean 'consume'?"),
        (["consume", "orders", "--form", "json"], "--form"),
        (["topic", "lst"], "Did you mean 'list'?"),
        (["produce"], "TOPIC"),
        (["produce", "orders", "--format", "xml"], "raw"),
        (["produce", "orders", "-k", "a", "-K", ":"], "give one of them"),
        (["produce", "orders", "x", "--file", "y"], "not both"),
        (["produce", "orders", "x", "-H", "trace"], "expected NAME=VALUE"),
        (["produce", "orders", "x", "-K", ""], "is empty"),
        (["consume", "a", "--regex", "-p", "0"], "--regex takes whole topics"),
        (["consume", "(", "--regex"], "is no regular expression"),
        (["topic", "alter", "orders"], "nothing to change"),
        (["group", "reset", "billing"], "give one of --to and --shift"),
        (["group", "reset", "billing", "--to", "1", "--shift", "2"], "give one of --to and --shift"),
        (["group", "reset", "billing", "--to", "soon"], "--to soon: expected earliest"),
        (["group", "reset", "billing", "--to", "1", "--topic", "orders:x"], "orders:x"),
        (["consume", "orders", "-X", "linger"], "expected NAME=VALUE"),
    ],
)
def test_a_mistake_in_the_usage_is_named_with_exit_code_2(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert said in result.output
    assert result.exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        (["consume", "orders", "--format", "%x"], "there is no %x", 2),
        (["consume", "orders", "--from", "yesterday"], "--from yesterday: expected earliest", 2),
        (["consume", "orders", "-X", "fetch.min.byte=1"], "did you mean fetch.min.bytes?", 2),
        (["produce", "orders", "x", "--config", "no.such.file"], "no.such.file: No such file", 1),
        (["topic", "list", "-b", "localhost"], "localhost", 2),
    ],
)
def test_an_error_is_one_line_without_a_traceback(arguments: list[str], said: str, code: int) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.output.startswith("ottla: ")
    assert said in result.output
    assert result.output.count("\n") == 1
    assert result.exit_code == code


def test_debug_shows_where_an_error_arose() -> None:
    result = CliRunner().invoke(app, ["consume", "orders", "--from", "yesterday", "--debug"])
    assert "Traceback" in result.output
    assert "parse_start" in result.output


def test_the_exit_code_of_a_command_is_the_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["consume", "orders", "--from", "yesterday"]) == 2
    assert run(["--help"]) == 0
    assert run(["consum"]) == 2
    capsys.readouterr()
