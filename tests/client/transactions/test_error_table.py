"""What a code means depends on the request that it answers.

That it means the same to Kafka's own producer is in tests/interop/transactions/test_error_classes.py.
"""

from __future__ import annotations

import pytest

from ottla.client.transactions.error_table import Consequence, TransactionalCall, consequence_of
from ottla.errors import ERRORS

C = Consequence
INIT, ADD, OFFSETS = (
    TransactionalCall.INIT,
    TransactionalCall.ADD_PARTITIONS,
    TransactionalCall.COMMIT_OFFSETS,
)
COMMIT, ABORT, PRODUCE = TransactionalCall.COMMIT, TransactionalCall.ABORT, TransactionalCall.PRODUCE
ADD_OFFSETS = TransactionalCall.ADD_OFFSETS
R, L, A, B, F = C.REPEAT, C.LOOK_UP, C.ABORT, C.ABORT_AND_BUMP, C.FATAL

# By code: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn to commit, to abort, Produce.
TABLE = {
    -1: (F, A, F, F, R, R, A),
    3: (R, R, R, R, R, R, A),
    7: (R, R, R, L, R, R, A),
    14: (R, R, R, R, R, R, A),
    15: (L, L, L, L, L, L, A),
    16: (L, L, L, L, L, L, A),
    22: (F, A, F, A, F, F, A),
    25: (F, A, F, A, F, F, A),
    29: (F, A, F, F, F, F, A),
    30: (F, A, A, A, F, F, A),
    31: (A, A, F, F, F, F, F),
    45: (F, A, F, F, F, F, B),
    47: (F, F, F, F, F, F, A),
    48: (F, F, F, F, F, F, A),
    49: (F, F, F, F, F, F, F),
    50: (F, A, F, F, F, F, A),
    51: (R, R, R, R, R, R, A),
    53: (A, F, F, F, F, F, F),
    59: (F, B, B, F, B, F, B),
    82: (F, A, F, A, F, F, A),
    90: (F, F, F, F, F, F, F),
    120: (A, A, A, A, A, F, A),
    9999: (F, A, F, F, F, F, A),
}


@pytest.mark.parametrize("code", TABLE)
def test_the_table_is_that_of_kafkas_client_by_request(code: int) -> None:
    calls = (INIT, ADD, ADD_OFFSETS, OFFSETS, COMMIT, ABORT, PRODUCE)
    assert tuple(consequence_of(call, code) for call in calls) == TABLE[code]


@pytest.mark.parametrize("call", TransactionalCall)
def test_every_code_of_kafka_means_something(call: TransactionalCall) -> None:
    assert consequence_of(call, 0) is C.GO_ON
    for code in ERRORS:
        assert consequence_of(call, code) is not C.GO_ON


def test_of_two_consequences_the_harder_one_counts() -> None:
    assert sorted([F, A, R, B, L, C.GO_ON]) == [C.GO_ON, R, L, A, B, F]


def test_an_abort_never_asks_for_another_abort() -> None:
    assert not {A, B} & {consequence_of(ABORT, code) for code in ERRORS}
