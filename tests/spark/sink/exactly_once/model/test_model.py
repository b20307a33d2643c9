"""The protocol of the sink in every order of its steps: no rule is broken, and a good end can always be reached.

A mistake that is planted in the model is found: so the model would find it in the protocol.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.spark.sink.exactly_once.model.search import search
from tests.spark.sink.exactly_once.model.settings import Mistake
from tests.spark.sink.exactly_once.model.state import Faults, State
from tests.spark.sink.exactly_once.model.trials import LARGE, PLANTED, QUICK, Trial


@pytest.mark.parametrize("trial", QUICK, ids=lambda trial: trial.name)
def test_under_few_faults_every_row_is_there_once_and_the_query_can_always_go_on(trial: Trial) -> None:
    found = search(trial.settings)
    assert found.problem == "", str(found)
    assert found.is_whole
    assert found.ends > 0


@pytest.mark.parametrize("mistake", PLANTED, ids=lambda mistake: mistake.name.lower())
def test_a_planted_mistake_is_found(mistake: Mistake) -> None:
    settings = PLANTED[mistake]
    assert search(settings).problem == "", "its faults break the protocol without the mistake as well"
    found = search(replace(settings, mistakes=frozenset({mistake})))
    assert found.problem, mistake.value
    assert found.way


def test_every_mistake_has_its_faults() -> None:
    assert set(PLANTED) == set(Mistake)


def test_every_kind_of_fault_strikes_in_a_quick_trial_and_in_a_large_one() -> None:
    for trials in (QUICK, LARGE):
        for kind in Faults._fields:
            assert any(getattr(trial.settings.faults, kind) for trial in trials), kind


def test_without_faults_a_query_has_few_states() -> None:
    """Among them those of each number of tasks; what is left of no fault is the same for all of them."""
    quiet = replace(QUICK[0].settings, faults=Faults())
    found = search(quiet)
    assert (found.problem, found.is_whole) == ("", True)
    assert found.states < 200


def test_a_search_that_is_cut_short_says_so() -> None:
    found = search(QUICK[0].settings, most=50)
    assert not found.is_whole
    assert "NOT ALL STATES" in str(found)


def test_a_state_is_known_by_what_it_says() -> None:
    assert len({State(Faults(crash=1)), State(Faults(crash=1)), State(Faults(crash=2))}) == 2
