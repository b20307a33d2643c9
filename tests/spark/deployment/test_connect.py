"""Spark Connect: a client without a JVM, and the package on the server."""

from __future__ import annotations

from pathlib import Path

from ottla.broker import Cluster
from tests.spark.deployment.conftest import ORDERS
from tests.spark.deployment.processes import connect_server, environment, run_jobs


def test_a_connect_session_reads_and_writes_under_both_names(orders: Cluster, tmp_path: Path) -> None:
    """Batch and stream as `ottla`, and as `kafka` after replace_kafka; and a pipeline."""
    with connect_server(env=environment()) as url:
        outcomes = run_jobs(
            ["register_and_read", "copy", "copy_as_kafka", "run_pipeline"],
            master=url,
            bootstrap=orders.bootstrap,
            folder=tmp_path,
        )
    assert list(outcomes.values()) == [{"rows": len(ORDERS)}] * 4
    for topic in ("copied", "streamed", "replaced", "piped"):
        assert sorted(record.value or b"" for record in orders.dump(topic)) == ORDERS
