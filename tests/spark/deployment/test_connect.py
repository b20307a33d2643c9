"""Spark Connect: a client without a JVM, and the package on the server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from ottla.broker import Cluster
from tests.interop import nodes, supervise
from tests.spark.deployment.conftest import ORDERS
from tests.spark.deployment.processes import connect_server, environment, run_jobs

_WITHIN_S: Final = 300.0
_PIPELINE: Final = """\
checkpoint = "{folder}/remote"
kafka.bootstrap.servers = "{bootstrap}"
sources.orders.topic = "orders"

[sinks.copies]
topic = "remote"
format = "bytes"
"""


def test_a_connect_session_reads_and_writes_under_both_names(orders: Cluster, tmp_path: Path) -> None:
    """Batch and stream as `ottla`, and as `kafka` after replace_kafka; a pipeline of a program, and one of a file."""
    file = tmp_path / "remote.toml"
    file.write_text(_PIPELINE.format(folder=tmp_path, bootstrap=orders.bootstrap))
    with connect_server(env=environment()) as url:
        outcomes = run_jobs(
            ["register_and_read", "copy", "copy_as_kafka", "run_pipeline"],
            master=url,
            bootstrap=orders.bootstrap,
            folder=tmp_path,
        )
        command = [sys.executable, "-m", "ottla", "pipeline", "run", str(file), "--remote", url, "--once"]
        said = supervise.run(command, text="", within=_WITHIN_S, env=environment())
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.splitlines()[-1] == (
        f"remote: done: copies: 1 micro-batch, {len(ORDERS):,} rows in, {len(ORDERS):,} out"
    )
    assert list(outcomes.values()) == [{"rows": len(ORDERS)}] * 4
    nodes.wait_until_marked(orders.bootstrap)
    for topic in ("copied", "streamed", "replaced", "piped", "remote"):
        assert sorted(record.value or b"" for record in orders.dump(topic)) == ORDERS
