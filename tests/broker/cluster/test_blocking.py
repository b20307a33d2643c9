"""The blocking Cluster: the same cluster on a thread of its own, and nothing of it left behind."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
import unittest

import pytest

from ottla.broker import Cluster, drop
from tests.interop.confluent import produce


def test_foreign_clients_reach_it_and_its_contents_are_seen() -> None:
    with Cluster(brokers=3, topics={"orders": 1}) as cluster:
        produce(cluster.bootstrap, "orders", [b"1", b"2"])
        assert [record.value for record in cluster.dump("orders")] == [b"1", b"2"]
        assert cluster.nodes == [1, 2, 3]


def test_seeded_records_have_keys_values_and_headers() -> None:
    with Cluster(topics={"orders": 2}) as cluster:
        assert cluster.seed("orders", [b"a", (b"k", None), (b"k", b"v", [("h", b"1")])], partition=1) == 0
        assert cluster.seed("orders", [b"b"] * 2500, partition=1) == 3
        records = cluster.dump("orders", 1)
        assert [(r.key, r.value, r.headers) for r in records[:3]] == [
            (None, b"a", []),
            (b"k", None, []),
            (b"k", b"v", [("h", b"1")]),
        ]
        assert [record.offset for record in records] == list(range(2503))
        assert cluster.dump("orders", 0) == []


def test_a_batch_retried_after_the_append_is_stored_once() -> None:
    with Cluster(topics=["orders"]) as cluster:
        fault = cluster.faults.add("Produce", when="after_append", action=drop, count=1)
        produce(cluster.bootstrap, "orders", [b"1"], idempotent=True)
        fault.wait()
        assert fault.hits == 1
        assert [record.value for record in cluster.dump("orders")] == [b"1"]


def test_waiting_ends_with_the_state_or_says_what_did_not_come() -> None:
    with Cluster(topics=["orders"]) as cluster:
        soon = threading.Timer(0.05, cluster.seed, ("orders", [b"1"]))
        soon.start()
        assert [record.value for record in cluster.wait_for_records("orders", 1)] == [b"1"]
        with pytest.raises(TimeoutError, match="9 records in orders did not come about"):
            cluster.wait_for_records("orders", 9, within=0.05)
        soon.join()
        fault = cluster.faults.add("Fetch")
        with pytest.raises(TimeoutError, match="0 times"):
            fault.wait(timeout=0.05)
        fault.remove()


def test_records_are_awaited_in_a_topic_that_is_yet_to_come() -> None:
    with Cluster() as cluster:
        soon = threading.Timer(0.05, produce, (cluster.bootstrap, "orders", [b"1"]))
        soon.start()
        assert [record.value for record in cluster.wait_for_records("orders", 1)] == [b"1"]
        soon.join()


def test_a_fork_has_no_cluster_to_wait_for() -> None:
    with Cluster() as cluster:
        child = os.fork()
        if not child:
            os._exit(_use_in_a_fork(cluster))
        assert os.waitpid(child, 0)[1] == 0


def _use_in_a_fork(cluster: Cluster) -> int:
    try:
        cluster.leader("orders")
    except RuntimeError as error:
        cluster.close()
        return 0 if "forked" in str(error) else 2
    return 1


def test_one_that_was_left_open_ends_with_the_program() -> None:
    text = """
        import atexit, threading
        from ottla.broker import Cluster

        # What was registered first comes last.
        atexit.register(lambda: print([each.name for each in threading.enumerate()]))
        cluster = Cluster(topics=["orders"])
        cluster.start()
        print([each.name for each in threading.enumerate()])
        """
    done = subprocess.run(
        [sys.executable, "-W", "default", "-c", textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["['MainThread', 'ottla-cluster']", "['MainThread']"]


def test_the_clock_of_a_test_moves_the_cluster() -> None:
    with Cluster() as cluster:
        before = cluster.clock.time()
        cluster.clock.advance(3600)
        assert 3600 <= cluster.clock.time() - before < 3700


def test_nothing_is_left_of_many_clusters() -> None:
    with Cluster(brokers=3, topics={"orders": 6}):
        pass
    gc.collect()
    files, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    for _ in range(30):
        with Cluster(brokers=3, topics={"orders": 6}):
            pass
    gc.collect()
    # What other tests have left may go meanwhile.
    assert len(os.listdir("/proc/self/fd")) <= files
    assert threading.active_count() <= threads


def test_misuse_is_named() -> None:
    cluster = Cluster()
    with pytest.raises(RuntimeError, match="does not run: it has not been started"):
        cluster.create_topic("orders")
    with pytest.raises(RuntimeError, match="with statement"):
        assert cluster.bootstrap
    with cluster, pytest.raises(RuntimeError, match="started already"):
        cluster.start()
    cluster.close()
    with pytest.raises(RuntimeError, match="does not run: it has been closed"):
        cluster.leader("orders")


def test_a_cluster_that_cannot_start_ends_its_thread() -> None:
    before = threading.active_count()
    with Cluster() as cluster, pytest.raises(OSError, match="address already in use"):
        Cluster(ports=[int(cluster.bootstrap.rpartition(":")[2])]).start()
    assert threading.active_count() <= before


class TestWithUnittest(unittest.TestCase):
    def setUp(self) -> None:
        self.kafka = self.enterContext(Cluster(topics=["orders"]))

    def test_it_is_a_context_like_any_other(self) -> None:
        self.kafka.seed("orders", [b"1"])
        self.assertEqual([record.value for record in self.kafka.dump("orders")], [b"1"])  # noqa: PT009


def test_a_condition_may_use_the_cluster_itself() -> None:
    with Cluster(topics=["orders"]) as cluster:
        soon = threading.Timer(0.05, cluster.seed, ("orders", [b"1"]))
        soon.start()
        cluster.wait_for(lambda: len(cluster.dump("orders")) == 1)
        soon.join()
        with pytest.raises(RuntimeError, match="wait for itself"):
            cluster.wait_for(lambda: cluster.add_node() > 0)


def test_a_call_that_waits_while_another_thread_closes_returns() -> None:
    cluster = Cluster(topics=["orders"])
    cluster.start()
    waits = threading.Event()
    ends: list[str] = []

    def never() -> bool:
        waits.set()
        return False

    def wait() -> None:
        try:
            cluster.wait_for(never, within=60)
        except RuntimeError as error:
            ends.append(str(error))

    threads = [threading.Thread(target=wait), threading.Thread(target=cluster.close)]
    threads[0].start()
    assert waits.wait(60)
    threads[1].start()
    cluster.close()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert ends == ["the cluster has been closed meanwhile"]
