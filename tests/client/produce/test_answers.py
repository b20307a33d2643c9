"""What an answer means for a batch."""

from __future__ import annotations

import pytest

from ottla.client.produce.answers import Verdict, error_in, judge
from ottla.errors import ERRORS, BrokerError, from_code
from ottla.wire.messages import ProduceResponse


def named(name: str) -> BrokerError:
    error = from_code(next(code for code, kind in ERRORS.items() if kind.name == name))
    assert error is not None
    return error


def verdict(
    name: str, *, idempotent: bool = True, first: bool = True, unsure: bool = False, records: int = 2
) -> Verdict:
    return judge(named(name), idempotent=idempotent, first=first, unsure=unsure, records=records)


def test_a_duplicate_is_delivered() -> None:
    assert judge(None, idempotent=True, first=True, unsure=False, records=1) is Verdict.DELIVERED
    assert verdict("DUPLICATE_SEQUENCE_NUMBER") is Verdict.DELIVERED


@pytest.mark.parametrize("name", ["REQUEST_TIMED_OUT", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"])
def test_what_may_be_stored_is_sent_again(name: str) -> None:
    assert verdict(name) is Verdict.RETRY_UNSURE


@pytest.mark.parametrize("name", ["NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "UNKNOWN_TOPIC_ID"])
def test_what_may_pass_is_sent_again(name: str) -> None:
    assert verdict(name) is Verdict.RETRY


def test_the_wrong_order_means_a_gap_only_for_the_first_batch() -> None:
    assert verdict("OUT_OF_ORDER_SEQUENCE_NUMBER") is Verdict.REFUTED
    assert verdict("OUT_OF_ORDER_SEQUENCE_NUMBER", unsure=True) is Verdict.REFUTED
    assert verdict("OUT_OF_ORDER_SEQUENCE_NUMBER", first=False) is Verdict.RETRY_BEHIND
    assert verdict("OUT_OF_ORDER_SEQUENCE_NUMBER", idempotent=False) is Verdict.FAIL


@pytest.mark.parametrize(
    ("name", "expected"),
    [("UNKNOWN_PRODUCER_ID", Verdict.NEW_EPOCH), ("INVALID_PRODUCER_EPOCH", Verdict.NEW_ID)],
)
def test_what_a_broker_can_no_longer_recognize_is_not_sent_twice(name: str, expected: Verdict) -> None:
    assert verdict(name) is expected
    assert verdict(name, unsure=True) is Verdict.FAIL_UNSURE


def test_only_a_batch_of_several_records_that_is_not_stored_is_split() -> None:
    assert verdict("MESSAGE_TOO_LARGE") is Verdict.SPLIT
    assert verdict("MESSAGE_TOO_LARGE", records=1) is Verdict.FAIL
    assert verdict("MESSAGE_TOO_LARGE", unsure=True) is Verdict.FAIL


def test_what_no_retry_helps_against_fails() -> None:
    assert verdict("TOPIC_AUTHORIZATION_FAILED") is Verdict.FAIL
    assert verdict("UNKNOWN_SERVER_ERROR") is Verdict.FAIL_UNSURE


def test_an_error_has_everything_the_broker_says() -> None:
    refused = ProduceResponse.BatchIndexAndErrorMessage(batch_index=3, batch_index_error_message="no key")
    answer = ProduceResponse.PartitionProduceResponse(
        index=2, error_code=87, error_message="compacted", record_errors=[refused]
    )
    error = error_in(answer, "orders", 1)
    assert error is not None
    assert (error.topic, error.partition, error.broker) == ("orders", 2, 1)
    assert "compacted; record 3: no key" in str(error)
