"""A member of a group in a process of its own, by confluent-kafka: it can die without a word.

    python -m tests.interop.groups.confluent_member BOOTSTRAP GROUP PROTOCOL TOPIC

Each line that it prints is an event: what it was assigned, what it gave up, and every record that it read. It leaves
the group when its standard input ends.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

from confluent_kafka import Consumer

from tests.interop.waiting import eventually

_ROOT = Path(__file__).parents[3]
_STOP_S = 60.0


class ConfluentMember:
    """The process, as the test sees it."""

    def __init__(self, bootstrap: str, group: str, protocol: str, topic: str) -> None:
        command = [sys.executable, "-m", __name__, bootstrap, group, protocol, topic]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=_ROOT, text=True
        )
        self.owned: set[int] = set()
        self.read: list[tuple[int, int]] = []
        """Partition and offset of each record, in the order of their coming."""
        self._reader = threading.Thread(target=self._listen)
        self._reader.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            kind, partitions = json.loads(line)
            if kind == "assigned":
                self.owned |= set(partitions)
            elif kind == "revoked":
                self.owned -= set(partitions)
            else:
                self.read.append((partitions[0], partitions[1]))

    def owns(self, count: int) -> None:
        """Returns when it owns that many partitions."""
        eventually(lambda: len(self.owned) == count, f"a member to own {count} partitions", within=60)

    def leave(self) -> None:
        """Closes the consumer."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._end()

    def kill(self) -> None:
        self._process.kill()
        self._end()
        self.owned = set()

    def _end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.wait(_STOP_S)
        self._reader.join(_STOP_S)
        self._process.stdin.close()
        self._process.stdout.close()

    def __enter__(self) -> ConfluentMember:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self.kill()


def _tell(kind: str, partitions: list[int]) -> None:
    sys.stdout.write(json.dumps([kind, partitions]) + "\n")
    sys.stdout.flush()


def _main(bootstrap: str, group: str, protocol: str, topic: str) -> None:
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 100,
        "log_level": 0,
    }
    if protocol == "classic":
        settings |= {"session.timeout.ms": 6000, "heartbeat.interval.ms": 300}
        settings |= {"partition.assignment.strategy": "cooperative-sticky"}
    consumer = Consumer(settings)
    is_over = threading.Event()

    def await_the_end() -> None:
        sys.stdin.read()
        is_over.set()

    threading.Thread(target=await_the_end, daemon=True).start()
    consumer.subscribe(
        [topic],
        on_assign=lambda _, parts: _tell("assigned", [part.partition for part in parts]),
        on_revoke=lambda _, parts: _tell("revoked", [part.partition for part in parts]),
    )
    while not is_over.is_set():
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            _tell("read", [message.partition() or 0, message.offset() or 0])
    consumer.close()


if __name__ == "__main__":
    _main(*sys.argv[1:])
