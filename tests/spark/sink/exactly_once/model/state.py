"""What there is at one moment: values, compared and hashed by what they say.

An epoch is written as its age, seen from the epoch that its transactional id has now: NOW, LAST, or OLD. That is all
that a coordinator ever asks, and so the states are finitely many however often an id is initialized.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias, TypeVar

_T = TypeVar("_T")

BATCHES: Final = 2
SLOTS: Final = 2
ROWS: Final = 2
"""Of each batch."""

NOW: Final = 0
LAST: Final = 1
OLD: Final = 2
SKIPPED: Final = -1
"""In place of an age: a task that has prepared nothing, as its rows are there."""

EMPTY: Final = "Empty"
ONGOING: Final = "Ongoing"
COMMITTED: Final = "CompleteCommit"
ABORTED: Final = "CompleteAbort"

DRIVER: Final = -1
"""In place of a slot: the driver's transactional id."""


class Listed(NamedTuple):
    """A transaction of a slot, by its epoch."""

    slot: int
    epoch: int


class Decision(NamedTuple):
    batch: int
    tasks: int
    listed: tuple[Listed, ...]


class Rows(NamedTuple):
    """What an attempt has written: its rows and its marker."""

    batch: int
    tasks: int
    is_left: bool
    """It was there when the current driver was initialized."""


class Transaction(NamedTuple):
    """A transactional id, at its coordinator."""

    status: str
    content: Rows | Decision | None


class LastBatch(NamedTuple):
    """What a driver tells its tasks of the last decision."""

    batch: int
    tasks: int
    complete: bool


NOTHING: Final = LastBatch(-1, 0, True)
"""No batch is decided yet."""


class Attempt(NamedTuple):
    step: str
    epoch: int


class Orphan(NamedTuple):
    """An attempt whose outcome nobody waits for."""

    slot: int
    batch: int
    tasks: int
    last: LastBatch
    driver: int
    """The epoch of its driver."""
    attempt: Attempt


class Driver(NamedTuple):
    """A driver, with the batch that it is at."""

    step: str
    batch: int
    epoch: int
    last: LastBatch = NOTHING
    tasks: int = 0
    attempts: tuple[Attempt | None, ...] = ()
    outcomes: tuple[int | None, ...] = ()
    """Of each task: the epoch of what it has prepared, or SKIPPED."""
    todo: tuple[Listed, ...] = ()
    """Transactions that are to be ended in this step."""
    has_lost: bool = False
    """One of them was gone."""
    kept: tuple[int | None, ...] = ()
    """Only with a planted mistake: epochs of the batch before."""


class Request(NamedTuple):
    """An EndTxn of the current epoch that its sender has given up, and that may arrive."""

    slot: int
    is_commit: bool


class Faults(NamedTuple):
    """How many more of each kind may strike, and of all together."""

    crash: int = 0
    """A driver dies, or the process that commits."""
    zombie: int = 0
    """A second driver starts while the first one lives."""
    orphan: int = 0
    """An attempt lives on when its driver has given it up. Does not count for the sum."""
    retry: int = 0
    """A task runs again: its attempt or its outcome was lost."""
    timeout: int = 0
    """A coordinator aborts what is open for too long."""
    lost: int = 0
    """A response is lost, or a request is late and its sender has given it up."""
    stale: int = 0
    """A leader that was replaced answers with what it had."""
    together: int = 0


Slots: TypeAlias = tuple[Transaction, ...]


class State(NamedTuple):
    left: Faults
    committed: int = 0
    """How many batches are in Spark's log of commits."""
    planned: int = 0
    """How many are in its log of offsets."""
    drivers: tuple[Driver, ...] = ()
    orphans: tuple[Orphan, ...] = ()
    late: tuple[Request, ...] = ()
    driver_id: Transaction = Transaction(EMPTY, None)
    slots: Slots = (Transaction(EMPTY, None),) * SLOTS
    decisions: tuple[Decision, ...] = ()
    """The last one, and the one before it where reads may be stale."""
    markers: tuple[int, ...] = (-1,) * SLOTS
    rows: tuple[int, ...] = (0,) * (BATCHES * ROWS)
    """How often each row is committed."""
    broken: str = ""
    """The rule that the last step has broken."""

    @property
    def last_decision(self) -> Decision | None:
        return self.decisions[-1] if self.decisions else None


Step: TypeAlias = tuple[str, State]
"""What happens, and what there is then."""


def replaced(items: tuple[_T, ...], index: int, item: _T) -> tuple[_T, ...]:
    return (*items[:index], item, *items[index + 1 :])
