"""Fault rules: which requests they strike, and how often."""

from __future__ import annotations

import asyncio
import math

import pytest

from ottla.broker.server.faults import Faults, delay, drop, error, never
from ottla.errors import NotLeaderOrFollowerError, ProtocolError

ORDERS = [("orders", 0), ("orders", 1)]


def struck(faults: Faults, api: str = "Produce", node: int = 1, when: str = "before_append") -> bool:
    return faults.strike(when, api, node, "client", ORDERS) is not None


def test_a_rule_strikes_as_often_as_it_says() -> None:
    faults = Faults()
    fault = faults.add("Produce", count=2)
    assert [struck(faults) for _ in range(3)] == [True, True, False]
    assert fault.hits == 2


@pytest.mark.parametrize(
    ("rule", "hit"),
    [
        ({}, True),
        ({"api": "Produce"}, True),
        ({"api": "Fetch"}, False),
        ({"node": 1}, True),
        ({"node": 2}, False),
        ({"topic": "orders"}, True),
        ({"topic": "payments"}, False),
        ({"topic": "orders", "partition": 1}, True),
        ({"topic": "orders", "partition": 2}, False),
        ({"partition": 0}, True),
        ({"client_id": "client"}, True),
        ({"client_id": "other"}, False),
        ({"when": "response"}, False),
    ],
)
def test_every_field_of_a_rule_narrows_it(rule: dict[str, object], hit: bool) -> None:
    faults = Faults()
    faults.add(**rule)  # type: ignore[arg-type]
    assert struck(faults) is hit


def test_a_strike_names_the_partitions_that_its_rule_is_about() -> None:
    faults = Faults()
    faults.add(topic="orders", partition=1, action=error("NOT_LEADER_OR_FOLLOWER"))
    found = faults.strike("before_append", "Produce", 1, None, ORDERS)
    assert found is not None
    assert found[1] == [("orders", 1)]


def test_the_first_rule_wins_and_a_removed_one_does_not_strike() -> None:
    faults = Faults()
    first, second = faults.add("Produce", action=drop, count=1), faults.add("Produce", action=never)
    assert struck(faults)
    assert struck(faults)
    assert (first.hits, second.hits) == (1, 1)
    faults.remove(second)
    faults.remove(second)
    assert not struck(faults)


def test_an_error_is_given_by_name_number_or_class() -> None:
    assert error("NOT_LEADER_OR_FOLLOWER") == error(6) == error(NotLeaderOrFollowerError)
    assert isinstance(error(6).as_error(), NotLeaderOrFollowerError)


def test_mistakes_in_a_rule_are_named() -> None:
    faults = Faults()
    with pytest.raises(ProtocolError, match="'Produces'"):
        faults.add("Produces")
    with pytest.raises(ValueError, match="before_append, after_append, response"):
        faults.add(when="later")
    with pytest.raises(TypeError, match=r"delay\(seconds\)"):
        faults.add(action="drop")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="less than once"):
        faults.add(count=0)
    with pytest.raises(ValueError, match="NOT_A_LEADER"):
        error("NOT_A_LEADER")
    with pytest.raises(TypeError, match="partition='0'"):
        faults.add(partition="0")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="16 bits"):
        error(99999)
    with pytest.raises(ValueError, match="0 says that there is none"):
        error(0)
    for seconds in (-1, math.inf, math.nan):
        with pytest.raises(ValueError, match=rf"delay\({seconds}\)"):
            delay(seconds)


def test_a_wait_for_a_rule_ends_when_it_has_struck() -> None:
    async def main() -> None:
        faults = Faults()
        fault = faults.add("Produce")
        once, twice = asyncio.ensure_future(fault.wait()), asyncio.ensure_future(fault.wait(2))
        await asyncio.sleep(0)
        struck(faults)
        await once
        assert not twice.done()
        struck(faults)
        await twice
        await fault.wait(2)

    asyncio.run(main())
