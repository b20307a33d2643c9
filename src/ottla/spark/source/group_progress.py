"""A query's progress in a consumer group, for tools that show lag: the option `ottla.commit.group`.

The checkpoint decides where a query goes on; what is committed here nobody reads back. So committing has to cost the
query nothing: `finished` notes offsets and returns, and a thread commits the newest ones, at most once in `EVERY`
seconds. What fails is a warning, once for each reason, and is tried again. A group that has members, or one of
KIP-848, belongs to consumers: nothing is committed to it.

`CommitSchedule` says what to commit when, and knows no thread and no clock. `Farewell` is about the end: Spark ends
the process of a source with SIGTERM, and calls its `stop` only if Python gets to leave its loop.

Invariant: offsets are committed in the order in which they were reported, and the last ones always, unless the
process is killed or Kafka does not take them in time.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Final

from ottla.errors import GroupIdNotFoundError, KafkaError, NonEmptyGroupError
from ottla.spark.source.checkpoint import PartitionOffsets
from ottla.spark.source.data_loss import names

if TYPE_CHECKING:
    from ottla.client.blocking.client import Client

_log = logging.getLogger(__name__)

EVERY: Final = 1.0
"""Seconds between two commits."""
_LONGEST_PAUSE: Final = 30.0
"""Seconds between two attempts, while Kafka refuses and nothing new is read."""
_KEPT_ALIVE: Final = 600.0
"""Seconds after which the same offsets are committed again: brokers forget those of a group without members."""
_ATTEMPT: Final = 10.0
"""Seconds that one commit may take, in the thread."""
FAREWELL: Final = 3.0
"""Seconds for the last commit of a query, which its end waits for."""


class GroupInUseError(KafkaError):
    """The group of `ottla.commit.group` belongs to consumers."""


class CommitSchedule:
    """What is to be committed, and when. Times are those of the caller's clock."""

    def __init__(self, every: float = EVERY) -> None:
        self._every = every
        self._newest: PartitionOffsets = {}
        self._is_pending = False
        self._committed_at = -math.inf
        self._not_before = -math.inf
        self._failures = 0

    def reported(self, offsets: PartitionOffsets, now: float) -> bool:
        """Whether these are to be committed: they are new, or were committed long ago."""
        if not offsets:
            return False
        if offsets == self._newest:
            if self._is_pending or now - self._committed_at < _KEPT_ALIVE:
                return False
        elif self._failures:
            # A new batch ends the long pause after failures, but not that between any two attempts.
            self._not_before = min(self._not_before, now + self._every)
        self._newest = offsets
        self._is_pending = True
        return True

    def wait(self, now: float) -> float | None:
        """The seconds until the next commit; None: there is none to be made."""
        return max(self._not_before - now, 0.0) if self._is_pending else None

    def take(self) -> PartitionOffsets:
        """What to commit now. It stays pending until it is known to have been."""
        return self._newest

    def succeeded(self, offsets: PartitionOffsets, now: float) -> None:
        self._is_pending = offsets != self._newest
        self._committed_at = now
        self._failures = 0
        self._not_before = now + self._every

    def failed(self, now: float) -> None:
        self._not_before = now + min(self._every * 2**self._failures, _LONGEST_PAUSE)
        self._failures = min(self._failures + 1, 10)


class GroupProgress:
    """Commits what a query has finished to a group, in a thread of its own that begins with the first offsets."""

    def __init__(
        self,
        group: str,
        client: Callable[[], Client],
        *,
        every: float = EVERY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._group = group
        self._client = client
        self._clock = clock
        self._schedule = CommitSchedule(every)
        # Of everything below. Reentrant: what reports may be interrupted by the signal that ends the process.
        self._changed = threading.Condition(threading.RLock())
        self._thread: threading.Thread | None = None
        self._hurries = self._ends = False
        self._is_ours = False
        self._warned: tuple[type, ...] | None = None

    def finished(self, offsets: PartitionOffsets) -> None:
        """Everything before these offsets is processed. Returns at once."""
        with self._changed:
            if self._ends or not self._schedule.reported(offsets, self._clock()):
                return
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="ottla-group-progress", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, timeout: float | None = None) -> bool:
        """Commits now what was reported, within `FAREWELL` seconds; whether an attempt has ended by then."""
        timeout = FAREWELL if timeout is None else timeout
        with self._changed:
            if self._thread is None or self._ends:
                return True
            self._hurries = True
            self._changed.notify_all()
            done = self._changed.wait_for(lambda: not self._hurries, timeout)
            self._hurries = False
            return done

    def close(self, timeout: float | None = None) -> None:
        """Commits what is left, and ends the thread; an attempt that hangs is left behind."""
        timeout = FAREWELL if timeout is None else timeout
        if not self.flush(timeout):
            _log.warning(
                "the last progress of the query is not committed to group %s (ottla.commit.group): that took longer"
                " than %g s. The query is not affected, and commits it when it is started again",
                self._group,
                timeout,
            )
        with self._changed:
            self._ends = True
            self._changed.notify_all()

    # In the thread

    def _run(self) -> None:
        while (offsets := self._next()) is not None:
            try:
                self._commit(offsets)
            except KafkaError as error:
                self._done(offsets, error)
            else:
                self._done(offsets, None)

    def _next(self) -> PartitionOffsets | None:
        with self._changed:
            while True:
                if self._ends:
                    return None
                wait = self._schedule.wait(self._clock())
                if wait is not None and (wait <= 0 or self._hurries):
                    return self._schedule.take()
                if wait is None and self._hurries:
                    self._hurries = False
                    self._changed.notify_all()
                self._changed.wait(wait)

    def _commit(self, offsets: PartitionOffsets) -> None:
        kafka = self._client()
        if not self._is_ours:
            self._check_group(kafka)
            self._is_ours = True
        done = kafka.admin.alter_group_offsets(self._group, offsets, errors="collect", timeout=_ATTEMPT)
        if not done.errors:
            return
        first = next(iter(done.errors.values()))
        if isinstance(first, NonEmptyGroupError):
            raise self._in_use("has members")
        raise KafkaError(f"Of {names(done.errors)}: {first}") from first

    def _check_group(self, kafka: Client) -> None:
        """A group of KIP-848 would take offsets while it is empty, and its next member would begin at them."""
        described = kafka.admin.describe_groups([self._group], errors="collect", timeout=_ATTEMPT)
        failed = described.errors.get(self._group)
        if failed is not None:
            if not isinstance(failed, GroupIdNotFoundError):
                raise failed
            return
        group = described[self._group]
        if group.group_type != "classic":
            raise self._in_use("is a group of the consumer protocol (KIP-848)")
        if group.members:
            raise self._in_use(f"has {len(group.members)} members")

    def _in_use(self, why: str) -> GroupInUseError:
        return GroupInUseError(
            f"the group {why}: its offsets are its consumers' own. Name a group that no consumer is in"
        )

    def _done(self, offsets: PartitionOffsets, error: KafkaError | None) -> None:
        # First: a flush returns when the attempt is reported, and not in the middle of it.
        self._report(error)
        with self._changed:
            if error is None:
                self._schedule.succeeded(offsets, self._clock())
            else:
                self._schedule.failed(self._clock())
                # Whose group it is may have changed.
                self._is_ours = False
            # A flush waits for one attempt: one that failed is not made again at once.
            if self._hurries and (error is not None or self._schedule.wait(self._clock()) is None):
                self._hurries = False
            self._changed.notify_all()

    def _report(self, error: KafkaError | None) -> None:
        # By their kinds: texts may have a duration in them, or a port.
        reason = None if error is None else (type(error), type(error.__cause__))
        if reason == self._warned or self._ends:
            return
        self._warned = reason
        if error is None:
            _log.info("the progress of the query is committed to group %s again", self._group)
            return
        _log.warning(
            "the progress of the query is not committed to group %s (ottla.commit.group); it will be tried again,"
            " and the query itself goes on. %s",
            self._group,
            error,
        )


class Farewell:
    """Turns SIGTERM, with which Spark ends the process of a source, into the end of its loop, and so into `stop`."""

    def __init__(self) -> None:
        self._came = False
        # Only a main thread may; and a handler that the program has is the program's.
        self._is_set = (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        )
        if self._is_set:
            signal.signal(signal.SIGTERM, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self._came:
            self._came = True
            raise SystemExit(128 + number)

    def over(self) -> None:
        """After the last commit: the signal, if it came, now does what it was sent for."""
        if not self._is_set:
            return
        self._is_set = False
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if self._came:
            os.kill(os.getpid(), signal.SIGTERM)
