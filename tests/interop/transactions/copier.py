"""A copier in a process of its own: it reads as a member of a group, and writes in transactions.

    python -m tests.interop.transactions.copier CLIENT BOOTSTRAP GROUP TRANSACTIONAL_ID SOURCE TARGET SIZE

CLIENT is confluent-kafka or ottla. Every record of the source goes to the target once, with the offsets in the same
transaction, SIZE records at a time; some transactions are aborted on purpose and begun again. It leaves when its
standard input ends. It may be killed at any moment: the next one of the same transactional id goes on.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer

from ottla.client.blocking.client import Client
from ottla.errors import KafkaError

_ROOT = Path(__file__).parents[3]
_STOP_S = 150.0
_CALL_S = 30.0
_STUCK_S = 60.0
"""librdkafka may stay in `send_offsets_to_transaction` for ever after its coordinator went, whatever the timeout, and
in `close` after a fatal error of the producer beside it."""
_ABORTED_OF_TEN = 2
_PASSING = ("_TIMED_OUT", "_WAIT_COORD", "_TRANSPORT", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR")


class Copier:
    """The process, as the test sees it; it can be ended, and started again."""

    def __init__(self, *arguments: str) -> None:
        self._command = [sys.executable, "-m", __name__, *arguments]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, cwd=_ROOT)

    def stop(self) -> None:
        """It ends its transaction, leaves the group and is gone."""
        process = self._running()
        assert process.stdin is not None
        process.stdin.close()
        try:
            assert process.wait(_STOP_S) == 0, "a copier has failed; its traceback is on standard error"
        finally:
            self.kill()

    def kill(self) -> None:
        """Ends it at once, in the middle of whatever it does."""
        process, self._process = self._running(), None
        process.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "this copier is not running"
        return self._process

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.kill()


class _Begun:
    """One producer and one consumer: from their beginning to their end, or to an error that ends them."""

    def __init__(self, bootstrap: str, group: str, transactional_id: str, source: str, target: str) -> None:
        self._target = target
        self._partitions = 0
        self._revoked = False
        shared = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._producer = Producer(
            {**shared, "transactional.id": transactional_id, "transaction.timeout.ms": 20_000, "linger.ms": 1}
        )
        self._consumer = Consumer(
            {
                **shared,
                "group.id": group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 500,
            }
        )
        self._source = source

    def run(self, size: int, is_over: threading.Event) -> None:
        try:
            _repeat("init_transactions", lambda: self._producer.init_transactions(_CALL_S))
            self._partitions = len(
                self._producer.list_topics(self._target, _CALL_S).topics[self._target].partitions
            )
            self._consumer.subscribe([self._source], on_revoke=self._on_revoke, on_lost=self._on_revoke)
            while not is_over.is_set():
                self._one_transaction(size, is_over)
        finally:
            with _watched("close"):
                self._consumer.close()

    def _on_revoke(self, *_: object) -> None:
        self._revoked = True

    def _one_transaction(self, size: int, is_over: threading.Event) -> None:
        self._revoked = False
        records: list[Any] = []
        while not records and not is_over.is_set():
            # What comes in one answer may be less than the size: the end of the source is no reason to wait.
            records = [each for each in self._consumer.consume(size, 1.0) if each.error() is None]
        if not records:
            return
        self._producer.begin_transaction()
        try:
            for record in records:
                number = int(record.value())
                self._producer.produce(self._target, record.value(), partition=number % self._partitions)
            if self._revoked or random.randrange(10) < _ABORTED_OF_TEN:
                raise _OnPurpose
            positions = self._consumer.position(self._consumer.assignment())
            metadata = self._consumer.consumer_group_metadata()
            _repeat(
                "send_offsets_to_transaction",
                lambda: self._producer.send_offsets_to_transaction(positions, metadata, _CALL_S),
            )
            _repeat("commit_transaction", lambda: self._producer.commit_transaction(_CALL_S))
        except (KafkaException, _OnPurpose) as error:
            if isinstance(error, KafkaException) and not error.args[0].txn_requires_abort():
                raise
            _repeat("abort_transaction", lambda: self._producer.abort_transaction(_CALL_S))
            self._rewind()

    def _rewind(self) -> None:
        """Back to what is committed, in the partitions that are left."""
        assigned = self._consumer.assignment()
        for partition in _repeat("committed", lambda: self._consumer.committed(assigned, _CALL_S)):
            if partition.offset < 0:
                partition.offset = OFFSET_BEGINNING
            self._consumer.seek(partition)


class _OnPurpose(Exception):  # noqa: N818  not an error: the transaction is to be aborted
    pass


def _repeat(name: str, call: Any) -> Any:
    """A call that may be repeated until it succeeds, or says that it will not."""
    while True:
        try:
            with _watched(name):
                return call()
        except KafkaException as error:
            if not error.args[0].retriable() and not _is_passing(error):
                raise


@contextmanager
def _watched(name: str) -> Iterator[None]:
    """Where a call of librdkafka does not return, the copier begins anew."""
    stuck = threading.Timer(_STUCK_S, _begin_anew, (name,))
    stuck.daemon = True
    stuck.start()
    try:
        yield
    finally:
        stuck.cancel()


def _begin_anew(name: str) -> None:
    """This process as it was started, in place of itself: to the brokers that is a crash."""
    sys.stderr.write(f"copier: {name} does not return, so the copier starts again\n")
    os.execv(sys.executable, [sys.executable, "-m", "tests.interop.transactions.copier", *sys.argv[1:]])


def _is_passing(error: KafkaException) -> bool:
    """Errors of `committed`, which is no call of transactions: a coordinator is on its way."""
    return error.args[0].name() in _PASSING


def _copy_by_ottla(
    bootstrap: str,
    group: str,
    transactional_id: str,
    source: str,
    target: str,
    size: int,
    is_over: threading.Event,
) -> None:
    """The same by a session of Ottla's own client, until it is over, or an error ends the client."""
    options: dict[str, Any] = {
        "session_timeout_ms": 6_000,
        "heartbeat_interval_ms": 500,
        "transaction_timeout_ms": 20_000,
    }
    with (
        Client(bootstrap, transactional_id=transactional_id, **options) as kafka,
        kafka.transact_session(source, group=group) as session,
    ):
        partitions = len(kafka.admin.describe_topics([target])[target].partitions)
        while not is_over.is_set():
            records = session.poll(size, timeout=1.0)
            if not records:
                continue
            # One answer may have fewer than a transaction is to have; at the end of the source it is what there is.
            while len(records) < size and (more := session.poll(size - len(records), timeout=0.2)):
                records += more
            session.begin()
            for record in records:
                session.produce(target, record.value, partition=int(record.value) % partitions)
            session.end(commit=random.randrange(10) >= _ABORTED_OF_TEN)


def _main(
    client: str, bootstrap: str, group: str, transactional_id: str, source: str, target: str, size: str
) -> None:
    is_over = threading.Event()

    def await_the_end() -> None:
        sys.stdin.read()
        is_over.set()

    threading.Thread(target=await_the_end, daemon=True).start()
    while not is_over.is_set():
        try:
            if client == "ottla":
                _copy_by_ottla(bootstrap, group, transactional_id, source, target, int(size), is_over)
            else:
                _Begun(bootstrap, group, transactional_id, source, target).run(int(size), is_over)
        except (KafkaException, KafkaError) as error:
            # Its successor begins anew, as after a crash.
            sys.stderr.write(f"copier {transactional_id}: {error}\n")


if __name__ == "__main__":
    _main(*sys.argv[1:])
