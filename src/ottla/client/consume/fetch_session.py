"""FetchSession (KIP-227): what one broker remembers of our fetches, so that a request says only what changed.

    session id   epoch   meaning
    0            0       a full request, which asks for a session
    n            0       the same, in place of session n
    n            > 0     the next request of session n: changes and forgotten partitions only
    n            -1      the end of session n

One per source. Pure: it plans requests and hears of answers. Partitions are named by topic id where the version has
ids (13 and up), by name below; a session has one kind only.

Invariant: `used` is what the broker holds after it has served every request that was planned; if that is in
doubt (a lost connection, an error code), `reset` begins anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.errors import FetchSessionIdNotFoundError
from ottla.wire import Uuid

FINAL_EPOCH: Final = -1
FULL_EPOCH: Final = 0
_LARGEST_EPOCH: Final = 0x7FFFFFFF


class Wanted(NamedTuple):
    """One partition as a request asks for it: where it is, and what of it."""

    topic: str
    topic_id: Uuid
    partition: int
    offset: int
    leader_epoch: int
    last_fetched_epoch: int
    max_bytes: int

    @property
    def key(self) -> tuple[str, Uuid, int]:
        return self[:3]


class Plan(NamedTuple):
    """What goes into a request."""

    session_id: int
    epoch: int
    wanted: list[Wanted]
    forgotten: list[tuple[str, Uuid, int]]


class FetchSession:
    """The state of one session, and of having none."""

    __slots__ = ("_epoch", "_id", "_uses_ids", "used")

    def __init__(self) -> None:
        self._id = 0
        self._epoch = FULL_EPOCH
        self._uses_ids = False
        self.used: dict[tuple[str, Uuid, int], Wanted] = {}

    @property
    def id(self) -> int:
        return self._id

    def plan(self, wanted: Iterable[Wanted], *, uses_ids: bool) -> Plan:
        """The next request for exactly these partitions."""
        if uses_ids != self._uses_ids:
            self.reset()
            self._uses_ids = uses_ids
        now = {each[:3]: each for each in wanted}
        if self._epoch == FULL_EPOCH:
            self.used = now
            return Plan(self._id, FULL_EPOCH, list(now.values()), [])
        used = self.used
        changed = [each for key, each in now.items() if used.get(key) != each]
        forgotten = [key for key in used if key not in now]
        self.used = now
        return Plan(self._id, self._epoch, changed, forgotten)

    def answered(self, session_id: int) -> None:
        """An answer without an error; 0 is a broker that gives no session."""
        if session_id == 0:
            self._id, self._epoch, self.used = 0, FULL_EPOCH, {}
            return
        self._id = session_id
        self._epoch = 1 if self._epoch == _LARGEST_EPOCH else self._epoch + 1

    def failed(self, code: int) -> None:
        """An error of the whole answer."""
        self.reset()
        if code == FetchSessionIdNotFoundError.code:
            self._id = 0

    def reset(self) -> None:
        """The next request is a full one, and takes the place of the session that there may be."""
        self._epoch = FULL_EPOCH
        self.used = {}

    def end(self) -> Plan | None:
        """The last request; None where there is no session to end."""
        if self._id == 0:
            return None
        plan = Plan(self._id, FINAL_EPOCH, [], [])
        self._id = 0
        self.reset()
        return plan
