"""The table of errors against Kafka's own producer, as it runs: it meets each code in the answer to each request.

The Java producer of 4.3.1 runs one transaction for each case on the embedded cluster, which puts the code into the
answer to one request of it. What follows is what the client's table says, but for the differences that are named.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.broker import Cluster
from ottla.broker.server import faults
from ottla.client.transactions.error_table import Consequence, TransactionalCall, consequence_of
from ottla.errors import ERRORS
from tests.interop import java
from tests.interop.transactions.conftest import QUICK, set_level

pytestmark = pytest.mark.usefixtures("kafka_installed")

T = TransactionalCall
# The call, the request that is answered with the code, and the name by which the Java program knows the call.
CALLS = {
    T.INIT: ("InitProducerId", "init"),
    T.ADD_PARTITIONS: ("AddPartitionsToTxn", "add"),
    T.ADD_OFFSETS: ("AddOffsetsToTxn", "add offsets"),
    T.COMMIT_OFFSETS: ("TxnOffsetCommit", "commit offsets"),
    T.COMMIT: ("EndTxn", "commit"),
    T.ABORT: ("EndTxn", "abort"),
    T.PRODUCE: ("Produce", "produce"),
}
NAMED = (-1, 3, 7, 14, 15, 16, 22, 25, 29, 30, 31, 45, 47, 48, 49, 50, 51, 53, 59, 82, 90, 120)
DUPLICATE = 46
OUTCOMES = {
    Consequence.REPEAT: "repeat",
    Consequence.LOOK_UP: "repeat",
    Consequence.ABORT: "abort",
    Consequence.ABORT_AND_BUMP: "abort",
    Consequence.FATAL: "fatal",
}
DIFFERENCES = {
    # What has become of the transaction is left open: it is asked for again.
    (T.COMMIT, -1): ("fatal", "repeat"),
    (T.ABORT, -1): ("fatal", "repeat"),
    # Brokers since 2.5 do not say it to a producer that goes on.
    (T.PRODUCE, 59): ("repeat", "abort"),
    # Brokers translate them for this request.
    (T.COMMIT_OFFSETS, 110): ("fatal", "abort"),
    (T.COMMIT_OFFSETS, 113): ("fatal", "abort"),
}
"""What Kafka's producer does, and what the table says instead."""
ADDED_BY_LEADER = (T.ADD_PARTITIONS, T.ADD_OFFSETS)
"""What a producer does not send with transaction.version 2."""


def expected(call: TransactionalCall, code: int) -> str:
    if call is T.PRODUCE and (ERRORS[code].retriable or code == DUPLICATE):
        # The table is about batches that are given up; before that they are sent again, or are stored already.
        return "repeat"
    return OUTCOMES[consequence_of(call, code)]


@contextmanager
def java_producers(bootstrap: str, topic: str) -> Iterator[subprocess.Popen[str]]:
    source = Path(__file__).with_name("ErrorClasses.java")
    process = subprocess.Popen(
        java.command(str(source), bootstrap, topic, log_level="OFF"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=java.environment(),
    )
    try:
        yield process
    finally:
        process.communicate(timeout=60)


def ask(process: subprocess.Popen[str], call: str) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{call}\n")
    process.stdin.flush()
    answer = process.stdout.readline().strip()
    assert answer, "the Java program has ended; standard error says why"
    return answer


@pytest.mark.skipif(
    shutil.which("javac", path=os.environ.get("JAVA_HOME", "") + "/bin:" + os.environ["PATH"]) is None,
    reason="a JDK is needed: the Java program is compiled on the way",
)
@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize(
    "codes",
    [
        pytest.param(NAMED, id="codes of transactions", marks=pytest.mark.kafka),
        pytest.param(tuple(ERRORS), id="all codes", marks=pytest.mark.kafka_full),
    ],
)
def test_the_table_is_what_kafkas_producer_does(level: int, codes: tuple[int, ...]) -> None:
    found: dict[tuple[TransactionalCall, int], str] = {}
    with Cluster(brokers=1, topics={"orders": 1}, config=QUICK) as cluster:
        if level < 2:
            set_level(cluster.bootstrap, level)
        with java_producers(cluster.bootstrap, "orders") as process:
            for call, (api, name) in CALLS.items():
                if level >= 2 and call in ADDED_BY_LEADER:
                    continue
                assert ask(process, name) == "repeat", f"{name} fails without an error"
                for code in codes:
                    # A duplicate is stored, and its transaction has begun.
                    stage = "after_append" if (call, code) == (T.PRODUCE, DUPLICATE) else "before_append"
                    rule = cluster.faults.add(api, when=stage, action=faults.error(code), count=1)
                    found[call, code] = ask(process, name)
                    assert rule.hits == 1, (call, code)
    differences = {
        case: (outcome, expected(*case)) for case, outcome in found.items() if outcome != expected(*case)
    }
    assert differences == {case: DIFFERENCES[case] for case in found if case in DIFFERENCES}
