"""A forked child that uses its parent's client is told at once, and the parent goes on as if nothing had been.

Each test is a program of its own: a fork of the test runner would take its threads' locks along.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from ottla.broker import Cluster

BEGIN = """
import asyncio, os, sys, threading
import ottla
from ottla.broker import Cluster
from ottla.errors import ForkedError

def forked(child):
    '''Runs the function in a child; its exit code.'''
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            child()
            code = 0
        except BaseException as error:
            sys.stderr.write(f"child: {error!r}\\n")
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def refused(function):
    try:
        function()
    except ForkedError as error:
        assert "after the fork" in str(error)
    else:
        raise AssertionError(f"{function} went well")
"""


def run(program: str) -> None:
    text = BEGIN + textwrap.dedent(program)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", text], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""


def test_every_call_of_a_blocking_client_is_refused_in_a_child() -> None:
    run("""
        with Cluster(topics=["orders"]) as cluster, ottla.Client(cluster.bootstrap) as kafka:
            kafka.produce("orders", b"1").result(timeout=30)
            consumer = kafka.consume("orders", start="earliest")
            assert len(consumer.poll(timeout=30)) == 1
            kafka.produce("orders", b"2")
            kafka.flush()
            cluster.pause_node(1)
            delivery = kafka.produce("orders", b"3")

            def child():
                refused(lambda: kafka.produce("orders", b"lost"))
                refused(lambda: kafka.produce("new", b"lost"))
                refused(delivery.result)
                refused(lambda: asyncio.run(awaited(delivery)))
                refused(kafka.flush)
                refused(kafka.admin.list_topics)
                refused(kafka.metrics)
                refused(lambda: kafka.consume("orders"))
                refused(lambda: consumer.poll(timeout=1))
                refused(lambda: next(iter(consumer)))
                refused(lambda: next(consumer.batches()))
                refused(lambda: consumer.seek(ottla.TopicPartition("orders", 0), 0))
                refused(lambda: consumer.position(ottla.TopicPartition("orders", 0)))
                consumer.close()
                kafka.close()

            async def awaited(delivery):
                await delivery

            assert forked(child) == 0
            cluster.resume_node(1)
            assert delivery.result(timeout=30).offset == 2
            assert [record.value for record in consumer.poll(timeout=30)] != []
            kafka.produce("orders", b"4").result(timeout=30)
            assert [record.value for record in cluster.dump("orders")] == [b"1", b"2", b"3", b"4"]
        """)


def test_an_iteration_that_goes_on_in_a_child_is_refused_at_its_next_step() -> None:
    run("""
        with Cluster(topics=["orders"]) as cluster, ottla.Client(cluster.bootstrap) as kafka:
            cluster.seed("orders", [b"%d" % number for number in range(100)])
            seen = []
            for record in (reading := iter(kafka.consume("orders", start="earliest", stop="latest"))):
                seen.append(record.offset)
                if len(seen) == 10:
                    assert forked(lambda: refused(lambda: next(reading))) == 0
            assert seen == list(range(100))
        """)


def test_a_child_that_leaves_as_programs_do_harms_nothing() -> None:
    """Without os._exit: everything that is collected and closed at the end of a program is, in the child as well."""
    with Cluster(topics=["orders"]) as cluster:
        run(f"""
            kafka = ottla.Client({cluster.bootstrap!r})
            kafka.produce("orders", b"1").result(timeout=30)
            consumer = kafka.consume("orders", start="earliest")
            assert len(consumer.poll(timeout=30)) == 1
            pid = os.fork()
            if pid == 0:
                sys.exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
            kafka.produce("orders", b"2").result(timeout=30)
            assert len(consumer.poll(timeout=30)) == 1
            kafka.close()
            """)


def test_a_new_client_works_in_a_child() -> None:
    run("""
        with Cluster(topics=["orders"]) as cluster, ottla.Client(cluster.bootstrap) as kafka:
            kafka.produce("orders", b"1").result(timeout=30)
            servers = cluster.bootstrap

            def child():
                with ottla.Client(servers) as mine:
                    mine.produce("orders", b"2").result(timeout=30)

            assert forked(child) == 0
            kafka.produce("orders", b"3").result(timeout=30)
            assert [record.value for record in cluster.dump("orders")] == [b"1", b"2", b"3"]
        """)


@pytest.mark.parametrize("busy", ["produces", "reads"])
def test_a_fork_while_other_threads_work_harms_neither_side(busy: str) -> None:
    run(f"""
        with Cluster(topics=["orders"]) as cluster, ottla.Client(cluster.bootstrap) as kafka:
            stop = threading.Event()

            def produces():
                while not stop.is_set():
                    kafka.produce("orders", b"x" * 100)

            def reads():
                consumer = kafka.consume("orders", start="earliest")
                while not stop.is_set():
                    consumer.poll(timeout=0.01)

            kafka.produce("orders", b"first").result(timeout=30)
            threads = [threading.Thread(target={busy}) for _ in range(3)]
            for each in threads:
                each.start()
            for _ in range(20):
                assert forked(lambda: refused(lambda: kafka.produce("orders", b"lost"))) == 0
                assert forked(lambda: refused(kafka.flush)) == 0
            stop.set()
            for each in threads:
                each.join(30)
                assert not each.is_alive()
            kafka.flush(timeout=60)
            assert b"lost" not in [record.value for record in cluster.dump("orders")]
        """)


def test_an_asynchronous_client_is_refused_in_a_child() -> None:
    run("""
        cluster = Cluster(topics=["orders"])
        cluster.start()

        async def main():
            async with ottla.AsyncClient(cluster.bootstrap) as kafka:
                await (await kafka.produce("orders", b"1"))
                cluster.pause_node(1)
                delivery = await kafka.produce("orders", b"2")

                async def raises(what):
                    try:
                        await what()
                    except ForkedError:
                        return
                    raise AssertionError(what)

                async def waits():
                    await delivery

                async def all_of_it():
                    await raises(lambda: kafka.produce("orders", b"lost"))
                    await raises(waits)
                    await raises(kafka.flush)
                    await raises(lambda: kafka.produce_batch("orders", None))
                    refused(lambda: kafka.consume("orders"))
                    refused(lambda: kafka.admin)
                    await kafka.close()

                assert forked(lambda: asyncio.run(all_of_it())) == 0
                cluster.resume_node(1)
                assert (await delivery).offset == 1

        asyncio.run(main())
        cluster.close()
        """)
