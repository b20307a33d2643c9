"""The client's guide is one program: its examples run one after the other, as a reader would run them."""

from __future__ import annotations

from ottla.broker import Cluster
from tests.docs.test_examples import blocks, run


def test_the_examples_of_the_guide_run_in_their_order() -> None:
    with Cluster(
        brokers=3, topics={"orders": 1, "totals": 2, "holidays": 1, "stamped": 1, "async": 1, "prices": 1}
    ) as cluster:
        program = "\n".join(blocks("docs/client.md"))
        assert "localhost:9092" in program
        run(program.replace("localhost:9092", cluster.bootstrap))
