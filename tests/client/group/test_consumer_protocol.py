"""What a heartbeat of KIP-848 says of the member's partitions, and what a response makes of them."""

from __future__ import annotations

from ottla.client.group.consumer_protocol import OwnedId, OwnershipReport
from ottla.wire import Uuid
from ottla.wire.messages import ConsumerGroupHeartbeatResponse

ORDERS = Uuid(bytes(range(16)))
Assignment = ConsumerGroupHeartbeatResponse.Assignment
Topic = ConsumerGroupHeartbeatResponse.TopicPartitions


def ids(*numbers: int) -> list[OwnedId]:
    return [(ORDERS, number) for number in numbers]


def told(report: OwnershipReport, *numbers: int) -> None:
    topics = [Topic(topic_id=ORDERS, partitions=list(numbers))] if numbers else []
    report.was_told(Assignment(topic_partitions=topics))


def owning(*numbers: int) -> OwnershipReport:
    """One whose partitions the coordinator knows of."""
    report = OwnershipReport()
    told(report, *numbers)
    report.accepted = dict(report.target)
    report.said(report.to_say(3, full=True))
    return report


def test_a_join_owns_nothing_whatever_was_owned_before() -> None:
    report = owning(0, 1)
    assert report.to_say(0, full=True) == []


def test_a_list_is_said_once_and_again_when_it_changes_or_everything_is_said() -> None:
    report = owning(0, 1)
    assert report.to_say(3, full=False) is None
    assert report.to_say(3, full=True) == ids(0, 1)
    told(report, 1, 2)
    report.accepted = dict(report.target)
    assert report.to_say(4, full=False) == ids(1, 2)


def test_a_list_that_did_not_get_there_is_said_again() -> None:
    report = owning(0)
    told(report, 0, 1)
    report.accepted = dict(report.target)
    assert report.to_say(4, full=False) == ids(0, 1)  # its response is lost, and `said` not called
    assert report.to_say(4, full=False) == ids(0, 1)


def test_nothing_is_said_while_partitions_are_given_up() -> None:
    report = owning(0, 1)
    told(report, 0)
    report.is_revoking = True
    assert report.to_say(3, full=True) is None
    report.accepted, report.is_revoking = dict(report.target), False
    assert report.to_say(3, full=False) == ids(0)


def test_owning_nothing_is_always_said() -> None:
    report = owning()
    assert report.to_say(3, full=False) == []


def test_no_assignment_is_no_change_and_an_empty_one_is_nothing() -> None:
    report = owning(0)
    report.was_told(None)
    assert (list(report.target), report.is_settled) == (ids(0), True)
    told(report)
    assert (list(report.target), report.is_settled) == ([], False)


def test_what_begins_anew_owns_nothing() -> None:
    report = owning(0)
    report.is_revoking = True
    report.reset()
    assert (report.accepted, report.target, report.is_settled) == ({}, {}, True)
