"""What is searched: the protocol as shipped under faults, and each planted mistake under those that show it."""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.spark.sink.exactly_once.model.settings import Form, Mistake, Settings
from tests.spark.sink.exactly_once.model.state import Faults


class Trial(NamedTuple):
    name: str
    settings: Settings


def _trials(name: str, faults: Faults, forms: tuple[Form, ...] = tuple(Form)) -> list[Trial]:
    return [
        Trial(f"{name}, {form.name.lower()}, transaction.version {version}", Settings(faults, version, form))
        for form in forms
        for version in (1, 2)
    ]


_ONE_FORM: Final = (Form.DATA_SOURCE,)

QUICK: Final = [
    *_trials("one fault of any kind", Faults(1, 1, 1, 1, 1, 1, 0, together=1)),
    *_trials("a crash, a timeout, a late request", Faults(crash=1, timeout=1, lost=1, together=3), _ONE_FORM),
    *_trials("crashes and stale reads", Faults(crash=2, stale=2, together=3), _ONE_FORM),
]
"""Those of `make test`: seconds."""

LARGE: Final = [
    *_trials("two faults of any kind", Faults(2, 1, 1, 2, 2, 2, 0, together=2)),
    *_trials("three faults with one driver", Faults(2, 0, 1, 1, 1, 2, 0, together=3)),
    *_trials("two drivers, a crash, a timeout", Faults(crash=1, zombie=1, timeout=1, together=3)),
    *_trials("stale reads with timeouts", Faults(crash=2, timeout=1, stale=2, together=4)),
    *_trials("stale reads with two drivers", Faults(crash=1, zombie=1, stale=1, together=3), _ONE_FORM),
]
"""Those of `make model`."""

_CRASH: Final = Faults(crash=1, together=1)
_CRASH_AND_TIMEOUT: Final = Faults(crash=2, timeout=1, together=2)
_ZOMBIE: Final = Faults(zombie=1, together=1)

PLANTED: Final = {
    Mistake.SHARED_PARTITION: Settings(_CRASH),
    Mistake.NO_FENCE: Settings(_ZOMBIE, widths=(1,)),
    Mistake.NO_RECOVERY: Settings(_CRASH_AND_TIMEOUT),
    Mistake.RECOVERY_RAISES: Settings(_CRASH_AND_TIMEOUT),
    Mistake.COMMIT_INITIALIZES: Settings(_ZOMBIE, widths=(1,)),
    Mistake.EPOCH_KEPT: Settings(_CRASH, version=1),
    Mistake.SKIP_IS_LISTED: Settings(_CRASH_AND_TIMEOUT),
    Mistake.ANY_WIDTH: Settings(_CRASH_AND_TIMEOUT),
    Mistake.OWN_MARKERS_ONLY: Settings(_CRASH),
    Mistake.ANY_MARKER_SKIPS: Settings(_ZOMBIE),
    Mistake.SWEEP_FIRST: Settings(_CRASH),
    Mistake.SWEEP_UNCHECKED: Settings(_ZOMBIE, widths=(1,)),
    Mistake.SWEEP_CHECKED_EARLY: Settings(_ZOMBIE, widths=(1,)),
    Mistake.SWEEP_ANY_EPOCH: Settings(Faults(crash=1, zombie=1, together=2), widths=(1,)),
    Mistake.SWEEP_LAST_BATCH: Settings(_CRASH),
    Mistake.ABORT_LOOKS: Settings(Faults(lost=1, together=1)),
    Mistake.SWEEP_UNSURE: Settings(Faults(crash=1, stale=1, together=2)),
    Mistake.DECISION_UNCHECKED: Settings(Faults(crash=1, stale=2, together=3)),
    Mistake.MARKER_UNCHECKED: Settings(Faults(crash=1, timeout=1, stale=1, together=3)),
}
"""Each mistake, with the faults that show it."""
