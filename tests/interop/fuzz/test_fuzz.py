"""The fuzzer: scripts follow from their seed, differences are found and made small, and a short run finds none."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ottla.wire import encode_request
from tests.interop.comparison.compare import Found
from tests.interop.comparison.world import World
from tests.interop.fuzz import document
from tests.interop.fuzz.campaign import Campaign
from tests.interop.fuzz.clusters import both
from tests.interop.fuzz.differ import Parting, minimised
from tests.interop.fuzz.drawing import FuzzStep, fitted, step, versions_of
from tests.interop.fuzz.play import _window
from tests.interop.fuzz.script import script

SEED, STEPS = 7, 400


def named(number: int) -> FuzzStep:
    return step(f"Api {number}", 0, lambda _world: pytest.fail("not to be sent"))


def parting(steps: Sequence[FuzzStep], *needed: FuzzStep) -> Parting | None:
    """A broker that differs in the last of the steps that are needed, if the others came before it."""
    places = [steps.index(each) for each in needed if each in steps]
    if len(places) < len(needed):
        return None
    return Parting(places[-1], needed[-1], (Found(needed[-1].name, "error_code", "NONE", "UNKNOWN"),))


def test_a_script_follows_from_its_seed() -> None:
    assert [each.name for each in script(3, 4)] == [each.name for each in script(3, 4)]
    assert [each.name for each in script(3, 4)] != [each.name for each in script(3, 5)]


def test_every_request_of_a_script_can_be_written() -> None:
    for number in range(60):
        for each in script(SEED, number):
            encode_request(fitted(each.build(World()), each.version), each.version, 1, "test")


def test_scripts_ask_every_api_at_every_version() -> None:
    asked = {
        (each.label.split(" ", 1)[0], each.version) for number in range(400) for each in script(SEED, number)
    }
    missing = {
        (api, version)
        for api in {name for name, _ in asked}
        for version in versions_of(api)
        if (api, version) not in asked
    }
    assert len({name for name, _ in asked}) == 28
    assert missing == set()


def test_a_script_is_made_as_short_as_its_difference_allows() -> None:
    steps = [named(number) for number in range(40)]
    needed = (steps[3], steps[17], steps[31])
    kept, found = minimised(steps, lambda fewer: parting(fewer, *needed))
    assert kept == list(needed)
    assert (found.number, found.step) == (2, steps[31])


def test_a_difference_that_does_not_come_again_is_not_made_short() -> None:
    with pytest.raises(ValueError, match="no difference"):
        minimised([named(1)], lambda _steps: None)


def test_a_difference_is_told_once_and_counted_as_often_as_it_is_seen() -> None:
    told: list[str] = []

    def differs_in_elections(steps: Sequence[FuzzStep]) -> Parting | None:
        elections = [each for each in steps if each.label.startswith("ElectLeaders")]
        return parting(steps, elections[0]) if elections else None

    campaign = Campaign(SEED, [differs_in_elections], told.append)
    campaign.run(1000)
    (signature,) = campaign.seen
    assert campaign.seen[signature] > 1
    assert campaign.findings[signature].steps == [campaign.findings[signature].parting.step]
    assert len([line for line in told if signature in line]) == 1


def test_what_depends_on_an_answer_is_sent_after_it() -> None:
    first, changes, waits = named(1), named(2), named(3)
    changes = step("Api", 0, first.build, settles=True)
    waits = step("Api", 0, first.build, waits=True)
    assert list(_window([first, first, waits, first], 0)) == [first, first]
    assert list(_window([first, first, waits, first], 2)) == [waits, first]
    assert list(_window([first, changes, first], 0)) == [first, changes]


def test_the_document_shows_what_is_masked() -> None:
    assert document.shown() == document.tables(), "write it anew: python -m tests.interop.fuzz.document"


@pytest.mark.kafka
def test_both_brokers_answer_a_short_run_alike(kafka_installed: None) -> None:
    told: list[str] = []
    with both(workers=2) as pairs:
        campaign = Campaign(SEED, [pair.first_difference for pair in pairs], told.append)
        campaign.run(STEPS)
    assert not campaign.seen, "\n".join(told)
