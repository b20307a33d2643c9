"""What a response means for a batch."""

from __future__ import annotations

import pytest

from ottla.client.produce.responses import BatchAction, action_after, error_in
from ottla.errors import ERRORS, BrokerError, from_code
from ottla.wire.messages import ProduceResponse


def named(name: str) -> BrokerError:
    error = from_code(next(code for code, kind in ERRORS.items() if kind.name == name))
    assert error is not None
    return error


def action(
    name: str, *, idempotent: bool = True, first: bool = True, ambiguous: bool = False, records: int = 2
) -> BatchAction:
    return action_after(named(name), idempotent=idempotent, first=first, ambiguous=ambiguous, records=records)


def test_a_duplicate_is_delivered() -> None:
    assert action_after(None, idempotent=True, first=True, ambiguous=False, records=1) is BatchAction.COMPLETE
    assert action("DUPLICATE_SEQUENCE_NUMBER") is BatchAction.COMPLETE


@pytest.mark.parametrize(
    "name", ["REQUEST_TIMED_OUT", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "KAFKA_STORAGE_ERROR"]
)
def test_what_may_be_stored_is_sent_again(name: str) -> None:
    assert action(name) is BatchAction.RETRY_AMBIGUOUS


@pytest.mark.parametrize("name", ["NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "UNKNOWN_TOPIC_ID"])
def test_what_may_pass_is_sent_again(name: str) -> None:
    assert action(name) is BatchAction.RETRY


def test_the_wrong_order_means_a_gap_only_for_the_first_batch() -> None:
    assert action("OUT_OF_ORDER_SEQUENCE_NUMBER") is BatchAction.RETRY_NOT_STORED
    assert action("OUT_OF_ORDER_SEQUENCE_NUMBER", ambiguous=True) is BatchAction.FAIL_AMBIGUOUS
    assert action("OUT_OF_ORDER_SEQUENCE_NUMBER", first=False) is BatchAction.RETRY_BEHIND
    assert action("OUT_OF_ORDER_SEQUENCE_NUMBER", idempotent=False) is BatchAction.FAIL


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("UNKNOWN_PRODUCER_ID", BatchAction.RETRY_NEW_EPOCH),
        ("INVALID_PRODUCER_EPOCH", BatchAction.RETRY_NEW_ID),
    ],
)
def test_what_a_broker_can_no_longer_recognize_is_not_sent_twice(name: str, expected: BatchAction) -> None:
    assert action(name) is expected
    assert action(name, ambiguous=True) is BatchAction.FAIL_AMBIGUOUS


def test_only_a_batch_of_several_records_that_is_not_stored_is_split() -> None:
    assert action("MESSAGE_TOO_LARGE") is BatchAction.SPLIT
    assert action("MESSAGE_TOO_LARGE", records=1) is BatchAction.FAIL
    assert action("MESSAGE_TOO_LARGE", ambiguous=True) is BatchAction.FAIL


def test_what_no_retry_helps_against_fails() -> None:
    assert action("TOPIC_AUTHORIZATION_FAILED") is BatchAction.FAIL
    assert action("UNKNOWN_SERVER_ERROR") is BatchAction.FAIL_AMBIGUOUS


def test_an_error_has_everything_the_broker_says() -> None:
    refused = ProduceResponse.BatchIndexAndErrorMessage(batch_index=3, batch_index_error_message="no key")
    response = ProduceResponse.PartitionProduceResponse(
        index=2, error_code=87, error_message="compacted", record_errors=[refused]
    )
    error = error_in(response, "orders", 1)
    assert error is not None
    assert (error.topic, error.partition, error.broker) == ("orders", 2, 1)
    assert "compacted; record 3: no key" in str(error)
