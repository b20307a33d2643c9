"""`ottla pipeline check`: what the file says, or what is wrong with it."""

from __future__ import annotations

from pathlib import Path

from ottla.cli.pipeline.check import load
from tests.cli.conftest import Ottla

REVENUE = """\
checkpoint = "checkpoints"
trigger = "5 seconds"

[kafka]
bootstrap.servers = "localhost:9092"

[sources.orders]
topic = "orders"
format = "json"
schema = "id bigint, customer int, at timestamp"
watermark = { column = "at", delay = "10 seconds" }
dead-letter = "orders-dead"

[sources.customers]
topic = "customers"
table = true
format = "json"
schema = "customer int, country string"

[transform]
sql = "SELECT id, country FROM orders JOIN customers USING (customer)"

[sinks.priced]
topic = "priced"
key = "country"
where = "id > 0"
"""


def test_it_says_what_the_pipeline_is(ottla: Ottla, tmp_path: Path) -> None:
    file = tmp_path / "revenue.toml"
    file.write_text(REVENUE)
    said = ottla("pipeline", "check", str(file))
    assert [line.split("\t") for line in said.stdout.splitlines()] == [
        ["pipeline", "revenue", "stream, a micro-batch every 5 seconds; exactly-once"],
        [
            *("source", "orders"),
            "orders; stream; json; watermark at - 10 seconds; malformed to orders-dead",
        ],
        ["source", "customers", "customers; table; json; malformed: fail"],
        ["transform", "SQL", "SELECT id, country FROM orders JOIN customers USING (cust..."],
        ["sink", "priced", "priced; json; append; key country; where id > 0"],
        ["checkpoint", str(tmp_path / "checkpoints"), ""],
    ]
    assert said.stderr == "ok\n"


def test_once_is_what_is_there_now_and_a_batch_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "revenue.toml"
    file.write_text(REVENUE)
    assert [load(file).trigger, load(file, once=True).trigger] == ["5 seconds", "available-now"]
    head = 'checkpoint = "checkpoints"\ntrigger = "5 seconds"\n'
    watermark = 'watermark = { column = "at", delay = "10 seconds" }\n'
    file.write_text(REVENUE.replace(head, 'mode = "batch"\n').replace(watermark, ""))
    once = load(file, once=True)
    assert (once.mode, once.trigger) == ("batch", None)


def test_mistakes_are_named_with_their_lines_and_end_all_commands_alike(ottla: Ottla, tmp_path: Path) -> None:
    file = tmp_path / "revenue.toml"
    file.write_text(REVENUE.replace('format = "json"', 'format = "jsn"', 1))
    for command in ("check", "run", "status"):
        said = ottla("pipeline", command, str(file), code=2)
        assert said.stdout == ""
        assert said.stderr.startswith(f"ottla: {file}:9: ")
        assert "'jsn'" in said.stderr
