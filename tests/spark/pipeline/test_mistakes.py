"""Every mistake in a pipeline's file is named with its line, and with what to write instead.

Each is made by one small change of a file that is good, and the whole message is compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.spark.options.parsing import OptionError
from ottla.spark.pipeline.file import parse
from ottla.spark.pipeline.mistakes import (
    Mistake,
    PipelineError,
    in_a_program,
    is_secret,
    of_option,
    without_secrets,
)

FOLDER = Path(__file__).parent
GOOD = (FOLDER / "good.toml").read_text()


def cases() -> Iterator[tuple[str, str, str]]:
    """From mistakes.txt: lines of good.toml to take out, lines to put in, and what is said then.

    - trigger = "5 seconds"
    + trigger = "5s"
    3: trigger: '5s' is no interval of Spark; write '5 seconds'
    """
    for block in (FOLDER / "mistakes.txt").read_text().strip().split("\n\n"):
        lines = block.splitlines()
        out, put_in = (
            "".join(f"{line[2:]}\n" for line in lines if line.startswith(mark)) for mark in ("- ", "+ ")
        )
        yield out, put_in, "\n".join(line for line in lines if line[:2] not in ("- ", "+ "))


MISTAKES = list(cases())


def said_of(text: str) -> str:
    with pytest.raises(PipelineError) as caught:
        parse(text, Path("/pipelines"), environment={})
    return "\n".join(line.removeprefix("pipeline.toml:") for line in str(caught.value).splitlines())


def test_the_file_that_the_mistakes_are_made_in_is_good() -> None:
    pipeline = parse(GOOD, Path("/pipelines"), environment={})
    assert pipeline.name == "revenue"
    assert list(pipeline.sources) == ["orders", "customers"]
    assert list(pipeline.sinks) == ["totals"]


@pytest.mark.parametrize(
    ("good", "bad", "said"), MISTAKES, ids=[f"{number}" for number in range(len(MISTAKES))]
)
def test_a_mistake_is_named_with_its_line(good: str, bad: str, said: str) -> None:
    assert GOOD.count(good) == 1
    assert said_of(GOOD.replace(good, bad)) == said


def test_there_are_many_kinds_of_mistakes() -> None:
    assert len({said.partition(":")[2] for _, _, said in MISTAKES}) > 100


def test_mistakes_are_named_all_together_in_the_order_of_the_file() -> None:
    text = GOOD.replace('"5 seconds"', '"5s"').replace('"json"', '"jsn"').replace('"update"', '"upsert"')
    assert [line.partition(":")[0] for line in said_of(text).splitlines()] == ["3", "13", "25", "34", "38"]


def test_what_only_follows_from_a_mistake_is_not_named() -> None:
    """The source would have no topic, and the transform no source."""
    text = GOOD.replace("[sources.orders]\n", "[sources]\norders.topick = 1\n[sources.orders.x]\n")
    assert (
        said_of(text).splitlines()[0]
        == "12: [sources.orders] topick: there is no such key; did you mean topic?"
    )
    assert "30:" not in said_of(text)


def test_the_error_has_the_keys_of_its_mistakes() -> None:
    with pytest.raises(PipelineError) as caught:
        parse(GOOD.replace('format = "json"', 'format = "jsn"', 2), Path("/pipelines"), environment={})
    assert caught.value.where == ("sources", "orders", "format")
    assert [mistake.where for mistake in caught.value.mistakes] == [
        ("sources", "orders", "format"),
        ("sources", "customers", "format"),
    ]
    assert isinstance(caught.value, OptionError)


@pytest.mark.parametrize(
    ("where", "attribute"),
    [
        (("trigger",), "trigger"),
        (("kafka", "linger.ms"), "kafka['linger.ms']"),
        (("sources", "orders", "format"), "sources['orders'].format"),
        (("sources", "orders", "watermark", "delay"), "sources['orders'].watermark.delay"),
        (("sinks", "totals", "options", "kafka.acks"), "sinks['totals'].options['kafka.acks']"),
    ],
)
def test_a_program_is_shown_its_own_attributes(where: tuple[str, ...], attribute: str) -> None:
    assert in_a_program(Mistake(where, "it is wrong")) == f"{attribute}: it is wrong"


def test_the_connector_speaks_in_the_words_of_a_pipeline() -> None:
    error = OptionError("option 'value.nested' cannot be 'x': set value.schema, not my.value.schema.file.")
    words = {"value.schema": "schema", "value.nested": "nested"}
    assert of_option(error, "value.nested", words) == "it cannot be 'x': set schema, not my.value.schema.file"


@pytest.mark.parametrize(
    "name", ["sasl.password", "ssl.keystore.password", "sasl.jaas.config", "client.Secret"]
)
def test_secrets_stay_out_of_messages(name: str) -> None:
    assert is_secret(name)
    assert without_secrets("it cannot be 'hunter2'", {name: "hunter2"}) == "it cannot be '...'"
    assert without_secrets("it cannot be 'x'", {name: "", "acks": "x"}) == "it cannot be 'x'"


@pytest.mark.parametrize(
    "line",
    [
        'sasl.password = "hunter2"',
        'sasl.jaas.config = "hunter2"',
        'ssl.keystore.password = "hunter2"',
        'security.protocol = "SASL_PLAINTEXT"\nsasl.username = "me"\nsasl.password = "hunter2"',
        'security.protocol = "SASL_PLAINTEXT"\nsasl.jaas.config = "PlainLoginModule required password=hunter2;"',
    ],
)
def test_a_password_is_in_no_message(line: str) -> None:
    bad = GOOD.replace("linger.ms = 5", line).replace('"stream"', '"steam"')
    assert "did you mean stream?" in said_of(bad)
    assert "hunter2" not in said_of(bad)
