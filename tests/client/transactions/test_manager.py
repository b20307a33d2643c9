"""Transactions against a played coordinator that fails by script, with both transaction versions.

Each failure here is one that other clients have had in the field: what was told as committed and was not, what joined
the transaction before, what hung.
"""

from __future__ import annotations

import asyncio

import pytest

from ottla.client.client import AsyncClient
from ottla.client.group.membership import GroupMetadata
from ottla.client.topic_partition import TopicPartition
from ottla.client.transactions.machine import TransactionStatus
from ottla.errors import (
    AbortNeededError,
    BrokerError,
    DeliveryError,
    DeliveryTimeoutError,
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    ProducerLostError,
    TransactionAbortedError,
    TransactionalIdAuthorizationFailedError,
    TransactionPendingError,
    TransactionStateError,
)
from tests.client.transactions.played import (
    ABORTABLE,
    CONCURRENT,
    DROP,
    FENCED,
    INVALID_STATE,
    LOSE,
    TOPIC,
    PlayedKafka,
    with_played,
)
from tests.client.worlds import World

S = TransactionStatus
BOTH = pytest.mark.parametrize("version", [1, 2])
GROUP = GroupMetadata("readers", 3, "member-1", None)
ONE = TopicPartition("requests", 0)


@BOTH
def test_what_is_produced_in_a_transaction_is_committed_at_its_end(version: int) -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        for round_ in range(3):
            async with client.transaction():
                for number in range(2):
                    await client.produce(TOPIC, b"%d" % round_, partition=number)
        assert [commit for commit, _ in kafka.ends] == [True] * 3
        assert (kafka.stored(0), kafka.stored(1)) == (3, 3)
        assert client.transaction_state.status is S.READY
        expected = [(0, 0), (1, 0), (2, 0)] if version == 2 else [(0, 0), (0, 1), (0, 2)]
        assert [(each.producer_epoch, each.base_sequence) for each in kafka.log[0]] == expected

    with_played(body, version)


def test_below_version_2_partitions_are_added_before_they_are_sent_to_and_together() -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        for _ in range(2):
            async with client.transaction():
                for number in range(2):
                    await client.produce(TOPIC, b"", partition=number)
        assert kafka.count("AddPartitionsToTxn") == 2
        assert set(kafka.versions("Produce")) == {11}
        assert set(kafka.versions("EndTxn")) == {4}

    with_played(body, 1)


def test_with_version_2_leaders_add_partitions_themselves() -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        async with client.transaction() as transaction:
            await client.produce(TOPIC, b"")
            await transaction.send_offsets({ONE: 5}, GROUP)
        assert kafka.count("AddPartitionsToTxn") == kafka.count("AddOffsetsToTxn") == 0
        assert min(kafka.versions("Produce")) >= 12
        assert kafka.versions("EndTxn") == kafka.versions("TxnOffsetCommit") == [5]

    with_played(body, 2)


@BOTH
def test_offsets_are_sent_with_the_member_that_commits_them(version: int) -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        async with client.transaction() as transaction:
            await transaction.send_offsets({ONE: 5}, GROUP)
        assert kafka.offsets == {"readers": {("requests", 0): 5}}
        (request,) = [each for name, _, each in kafka.asked if name == "TxnOffsetCommit"]
        assert (request.member_id, request.generation_id) == ("member-1", 3)  # type: ignore[attr-defined]
        assert [commit for commit, _ in kafka.ends] == [True]

    with_played(body, version)


def test_offsets_for_an_older_broker_leave_the_member_out() -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        async with client.transaction() as transaction:
            await transaction.send_offsets({ONE: 5}, GROUP)
        assert kafka.versions("TxnOffsetCommit") == [2]
        assert client._transactions().checks_groups is False

    with_played(body, 1, most={"TxnOffsetCommit": 2})


@BOTH
def test_an_exception_in_the_block_aborts_and_passes(version: int) -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        async def divide() -> None:
            async with client.transaction():
                await (await client.produce(TOPIC, b""))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await divide()
        assert [commit for commit, _ in kafka.ends] == [False]

    with_played(body, version)


def test_records_that_were_not_sent_fail_with_the_abort_and_close_raises_nothing() -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        transaction = await client.begin_transaction()
        delivery = await client.produce(TOPIC, b"")
        await transaction.abort()
        with pytest.raises(TransactionAbortedError, match="its transaction was aborted"):
            await delivery
        assert kafka.ends == []
        await client.flush()

    with_played(body, linger_ms=10_000)


@BOTH
def test_a_transaction_without_records_sends_nothing(version: int) -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        async with client.transaction():
            pass
        transaction = await client.begin_transaction()
        await transaction.abort()
        assert kafka.count("EndTxn") == 0
        async with client.transaction():
            await client.produce(TOPIC, b"")
        assert kafka.ends == [(True, 0)]

    with_played(body, version)


def test_producing_without_a_transaction_says_what_to_do() -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        with pytest.raises(TransactionStateError, match="begin_transaction"):
            await client.produce(TOPIC, b"")
        async with client.transaction():
            await client.produce(TOPIC, b"")
        with pytest.raises(TransactionStateError):
            await client.produce(TOPIC, b"")
        assert kafka.stored() + kafka.stored(1) == 1

    with_played(body)


# The outcome of an end that has no response


@BOTH
@pytest.mark.parametrize("how", [DROP, LOSE, CONCURRENT, 15, 16, 14, 7, -1])
def test_an_end_without_an_outcome_is_repeated_until_there_is_one(version: int, how: int | str) -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        for commit in (True, False):
            transaction = await client.begin_transaction()
            await (await client.produce(TOPIC, b"", partition=0))
            kafka.will("EndTxn", how, how)
            await (transaction.commit() if commit else transaction.abort())
            assert transaction.is_over
        assert [commit for commit, _ in kafka.ends] == [True, False]
        assert kafka.count("EndTxn") == 6
        async with client.transaction():
            await client.produce(TOPIC, b"", partition=0)
        assert [commit for commit, _ in kafka.ends] == [True, False, True]

    with_played(body, version)


@BOTH
@pytest.mark.parametrize("commit", [True, False])
def test_an_end_whose_outcome_comes_between_two_calls_is_told_by_the_second(
    version: int, commit: bool
) -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        transaction = await client.begin_transaction()
        await (await client.produce(TOPIC, b""))
        kafka.will("EndTxn", 15)
        end = transaction.commit if commit else transaction.abort
        with pytest.raises(TransactionPendingError):
            await end(timeout=0.0)
        while client.transaction_state.status is not S.READY:
            await world.runtime.clock.sleep(0.01)
        await end()
        assert transaction.is_over
        assert [committed for committed, _ in kafka.ends] == [commit]
        async with client.transaction():
            await client.produce(TOPIC, b"")
        assert [committed for committed, _ in kafka.ends] == [commit, True]

    with_played(body, version)


@BOTH
def test_a_commit_that_times_out_is_pending_and_nothing_begins_before_it_is_known(version: int) -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        transaction = await client.begin_transaction()
        await (await client.produce(TOPIC, b""))
        kafka.will("EndTxn", *[15] * 1000)
        with pytest.raises(TransactionPendingError, match="call commit again") as caught:
            await transaction.commit(timeout=1.0)
        assert caught.value.retriable
        assert client.transaction_state.status is S.COMMITTING
        with pytest.raises(TransactionStateError, match="call commit again"):
            await client.begin_transaction()
        with pytest.raises(TransactionStateError, match="cannot be aborted"):
            await transaction.abort()
        with pytest.raises(TransactionStateError):
            await client.produce(TOPIC, b"")
        kafka.will("EndTxn")
        await transaction.commit()
        await transaction.commit()
        assert [commit for commit, _ in kafka.ends] == [True]
        with pytest.raises(TransactionStateError, match="committed already"):
            await transaction.abort()

    with_played(body, version)


def test_a_caller_that_is_cancelled_leaves_the_commit_under_way() -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        transaction = await client.begin_transaction()
        await (await client.produce(TOPIC, b""))
        kafka.will("EndTxn", 15, 15)
        committing = asyncio.ensure_future(transaction.commit())
        await kafka.until(lambda: kafka.count("EndTxn") == 1)
        committing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await committing
        await transaction.commit()
        assert [commit for commit, _ in kafka.ends] == [True]

    with_played(body)


def test_fenced_after_a_commit_without_a_response_leaves_both_outcomes_open() -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        transaction = await client.begin_transaction()
        await (await client.produce(TOPIC, b""))
        kafka.will("EndTxn", LOSE, FENCED)
        with pytest.raises(ProducerLostError, match="is unknown") as caught:
            await transaction.commit()
        assert caught.value.may_be_committed
        assert client.transaction_state.status is S.FATAL_ERROR
        with pytest.raises(ProducerLostError) as again:
            await client.begin_transaction()
        assert again.value.may_be_committed

    with_played(body)


@pytest.mark.parametrize("lost", [True, False])
def test_the_other_outcome_is_an_answer(lost: bool) -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        transaction = await client.begin_transaction()
        await (await client.produce(TOPIC, b""))
        kafka.will("EndTxn", *([DROP] if lost else []), INVALID_STATE)
        with pytest.raises(ProducerLostError, match="not committed by it") as caught:
            await transaction.commit()
        assert isinstance(caught.value.__cause__, InvalidTxnStateError)
        assert not caught.value.may_be_committed

    with_played(body)


def test_a_commit_that_the_coordinator_refuses_is_aborted() -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        kafka.will("EndTxn", ABORTABLE)
        with pytest.raises(AbortNeededError):
            async with client.transaction():
                await client.produce(TOPIC, b"")
        assert [commit for commit, _ in kafka.ends] == [False]
        assert client.transaction_state.status is S.READY

    with_played(body)


def test_an_abort_that_is_to_be_aborted_ends_the_producer() -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        transaction = await client.begin_transaction()
        await (await client.produce(TOPIC, b""))
        kafka.will("EndTxn", ABORTABLE)
        with pytest.raises(ProducerLostError):
            await transaction.abort()
        assert kafka.count("EndTxn") == 1

    with_played(body)


# Records that fail


@BOTH
def test_a_record_that_fails_makes_the_commit_an_error_and_the_abort_is_sent(version: int) -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        transaction = await client.begin_transaction()
        kafka.will("Produce", ABORTABLE)
        failing = await client.produce(TOPIC, b"", partition=0)
        with pytest.raises(Exception, match="TRANSACTION_ABORTABLE"):
            await failing
        for _ in range(2):
            with pytest.raises(AbortNeededError, match="TRANSACTION_ABORTABLE"):
                await transaction.commit()
        with pytest.raises(AbortNeededError):
            await client.produce(TOPIC, b"")
        assert client.transaction_state.status is S.ABORTABLE_ERROR
        await transaction.abort()
        assert kafka.count("EndTxn") == 1
        async with client.transaction():
            await client.produce(TOPIC, b"", partition=0)
        assert kafka.stored(0) == 1
        assert [commit for commit, _ in kafka.ends][-1] is True
        # A broker may lack the sequences of what has failed.
        assert kafka.count("InitProducerId") == (2 if version == 1 else 1)

    with_played(body, version)


@BOTH
@pytest.mark.parametrize(
    ("code", "status"),
    [(47, S.ABORTABLE_ERROR), (48, S.ABORTABLE_ERROR), (90, S.FATAL_ERROR), (49, S.FATAL_ERROR)],
)
def test_what_a_code_of_produce_does_to_the_transaction(
    version: int, code: int, status: TransactionStatus
) -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        await client.begin_transaction()
        kafka.will("Produce", code)
        failing = await client.produce(TOPIC, b"", partition=0)
        await kafka.until(lambda: kafka.count("Produce") == 1)
        waiting = await client.produce(TOPIC, b"", partition=0)
        with pytest.raises(BrokerError) as caught:
            await failing
        assert caught.value.code == code
        with pytest.raises(TransactionAbortedError):
            await waiting
        assert client.transaction_state.status is status
        with pytest.raises(DeliveryError):
            await client.flush()

    with_played(body, version, max_in_flight_requests_per_connection=1)


@BOTH
@pytest.mark.parametrize("code", [CONCURRENT, 19, 6, 20, 7])
def test_a_batch_is_sent_again_after_what_passes(version: int, code: int) -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        kafka.will("Produce", code, code)
        async with client.transaction():
            await client.produce(TOPIC, b"", partition=0)
        assert kafka.stored(0) == 1
        assert kafka.ends == [(True, 0)]

    with_played(body, version)


@BOTH
def test_a_batch_whose_response_is_lost_is_stored_once(version: int) -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        kafka.will("Produce", LOSE)
        async with client.transaction():
            await client.produce(TOPIC, b"", partition=0)
        assert kafka.stored(0) == 1

    with_played(body, version)


@BOTH
def test_records_that_time_out_before_anything_was_sent_cannot_be_committed(version: int) -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        transaction = await client.begin_transaction()
        delivery = await client.produce("unheard-of", b"")
        with pytest.raises(AbortNeededError):
            await transaction.commit(timeout=30.0)
        with pytest.raises(Exception, match="unheard-of"):
            await delivery
        await transaction.abort()
        assert kafka.count("EndTxn") == 0

    with_played(body, version, delivery_timeout_ms=3000, request_timeout_ms=1000, default_api_timeout_ms=2000)


@BOTH
def test_a_batch_that_is_overdue_ends_its_transaction_and_the_next_one_goes_well(version: int) -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        transaction = await client.begin_transaction()
        kafka.will("Produce", *[19] * 1000)
        delivery = await client.produce(TOPIC, b"", partition=0)
        with pytest.raises(DeliveryTimeoutError):
            await delivery
        kafka.will("Produce")
        await transaction.abort()
        async with client.transaction():
            await client.produce(TOPIC, b"", partition=0)
        assert kafka.stored(0) == 1
        assert kafka.ends[-1][0] is True

    with_played(body, version, delivery_timeout_ms=2000, request_timeout_ms=1000)


@BOTH
def test_an_abort_gives_up_what_is_sent_again_and_again(version: int) -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        transaction = await client.begin_transaction()
        kafka.will("Produce", *[20] * 10_000)
        delivery = await client.produce(TOPIC, b"", partition=0)
        await kafka.until(lambda: kafka.count("Produce") >= 2)
        await transaction.abort(timeout=5.0)
        with pytest.raises(TransactionAbortedError):
            await delivery
        kafka.will("Produce")
        async with client.transaction():
            await client.produce(TOPIC, b"", partition=0)
        assert kafka.stored(0) == 1

    with_played(body, version)


def test_a_commit_that_waits_for_its_records_can_be_given_up_for_an_abort() -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        transaction = await client.begin_transaction()
        kafka.will("Produce", *[20] * 10_000)
        await client.produce(TOPIC, b"", partition=0)
        with pytest.raises(TransactionPendingError):
            await transaction.commit(timeout=1.0)
        await transaction.abort(timeout=5.0)
        assert [commit for commit, _ in kafka.ends] == [False]

    with_played(body)


def test_out_of_order_sequences_take_another_epoch_behind_the_abort() -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        async with client.transaction():
            await client.produce(TOPIC, b"", partition=0)
        kafka.will("Produce", 45)
        with pytest.raises(AbortNeededError, match="OUT_OF_ORDER"):
            async with client.transaction():
                await client.produce(TOPIC, b"", partition=0)
        async with client.transaction():
            await client.produce(TOPIC, b"", partition=0)
        inits = [each for name, _, each in kafka.asked if name == "InitProducerId"]
        assert [(each.producer_id, each.producer_epoch) for each in inits] == [(-1, -1), (7, 0)]  # type: ignore[attr-defined]
        assert [(each.producer_epoch, each.base_sequence) for each in kafka.log[0]] == [(0, 0), (1, 0)]

    with_played(body, 1)


def test_a_broker_that_cannot_replace_an_epoch_ends_the_producer() -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        kafka.will("Produce", 45)
        with pytest.raises(AbortNeededError):
            async with client.transaction():
                await client.produce(TOPIC, b"", partition=0)
        with pytest.raises(ProducerLostError, match="InitProducerId"):
            await client.begin_transaction()

    with_played(body, 1, most={"InitProducerId": 2})


# Partitions and offsets that cannot be added


@pytest.mark.parametrize("how", [CONCURRENT, 15, 16, 14, 3, DROP, LOSE])
def test_partitions_are_added_until_the_coordinator_has_them(how: int | str) -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        kafka.will("AddPartitionsToTxn", how, how)
        async with client.transaction():
            await client.produce(TOPIC, b"", partition=0)
        assert kafka.count("AddPartitionsToTxn") == 3
        assert kafka.stored(0) == 1

    with_played(body, 1)


def test_a_partition_that_may_not_be_added_ends_the_transaction_without_a_word_to_the_coordinator() -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        kafka.will("AddPartitionsToTxn", 29)
        with pytest.raises(AbortNeededError, match="TOPIC_AUTHORIZATION_FAILED"):
            async with client.transaction():
                await client.produce(TOPIC, b"", partition=0)
        # EndTxn for a transaction that was never begun is INVALID_TXN_STATE, which ends the producer.
        assert kafka.count("EndTxn") == kafka.count("Produce") == 0
        async with client.transaction():
            await client.produce(TOPIC, b"", partition=0)
        assert kafka.ends == [(True, 0)]

    with_played(body, 1)


@pytest.mark.parametrize("how", [DROP, LOSE])
def test_an_abort_beside_an_add_without_a_response_ends_what_may_be_open(how: str) -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        transaction = await client.begin_transaction()
        kafka.will("AddPartitionsToTxn", how, *[DROP] * 1000)
        await client.produce(TOPIC, b"", partition=0)
        await kafka.until(lambda: kafka.count("AddPartitionsToTxn") >= 2)
        await transaction.abort(timeout=10.0)
        assert kafka.count("EndTxn") == 1
        assert not kafka.known.is_open
        kafka.will("AddPartitionsToTxn")
        async with client.transaction():
            await client.produce(TOPIC, b"", partition=0)
        assert kafka.ends[-1] == (True, 0)

    with_played(body, 1)


@BOTH
@pytest.mark.parametrize("how", [CONCURRENT, 15, 16, 14, 7, 3, DROP, LOSE])
def test_offsets_are_sent_until_the_group_has_them(version: int, how: int | str) -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        kafka.will("TxnOffsetCommit", how, how)
        kafka.will("AddOffsetsToTxn", CONCURRENT, how)
        async with client.transaction() as transaction:
            await transaction.send_offsets({ONE: 5}, GROUP)
        assert kafka.offsets == {"readers": {("requests", 0): 5}}
        assert kafka.count("TxnOffsetCommit") == 3
        assert [commit for commit, _ in kafka.ends] == [True]

    with_played(body, version)


@BOTH
@pytest.mark.parametrize("code", [22, 25, 82, 30])
def test_offsets_of_a_member_that_is_not_in_the_group_abort(version: int, code: int) -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        transaction = await client.begin_transaction()
        kafka.will("TxnOffsetCommit", code)
        with pytest.raises(AbortNeededError):
            await transaction.send_offsets({ONE: 5}, GROUP)
        with pytest.raises(AbortNeededError):
            await transaction.commit()
        await transaction.abort()
        assert [commit for commit, _ in kafka.ends] == [False]

    with_played(body, version)


def test_offsets_that_were_not_waited_for_do_not_overtake_the_next_ones() -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        transaction = await client.begin_transaction()
        kafka.will("TxnOffsetCommit", 15, 15)
        with pytest.raises(TransactionPendingError):
            await transaction.send_offsets({ONE: 5}, GROUP, timeout=0.001)
        await transaction.send_offsets({ONE: 6}, GROUP)
        await transaction.commit()
        assert kafka.offsets == {"readers": {("requests", 0): 6}}

    with_played(body)


# Initializing


@pytest.mark.parametrize("how", [CONCURRENT, 15, 16, 14, DROP, LOSE])
def test_it_is_initialized_however_often_that_takes(how: int | str) -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        kafka.will("InitProducerId", *[how] * 8)
        async with client.transaction():
            await client.produce(TOPIC, b"")
        assert kafka.count("InitProducerId") == 9

    with_played(body)


def test_a_refusal_that_may_pass_leaves_it_uninitialized() -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        kafka.will("InitProducerId", 53)
        with pytest.raises(TransactionalIdAuthorizationFailedError):
            await client.begin_transaction()
        assert client.transaction_state.status is S.UNINITIALIZED
        async with client.transaction():
            await client.produce(TOPIC, b"")

    with_played(body)


def test_a_timeout_that_brokers_do_not_allow_is_fatal_and_named() -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        kafka.will("InitProducerId", 50)
        with pytest.raises(ProducerLostError, match=r"transaction\.timeout\.ms") as caught:
            await client.begin_transaction()
        assert isinstance(caught.value.__cause__, InvalidTransactionTimeoutError)

    with_played(body)


def test_a_fenced_producer_does_not_initialize_itself_again() -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        kafka.will("InitProducerId", FENCED)
        with pytest.raises(ProducerLostError):
            await client.begin_transaction()
        with pytest.raises(ProducerLostError):
            await client.begin_transaction()
        assert kafka.count("InitProducerId") == 1

    with_played(body)


def test_an_initialization_that_takes_too_long_is_joined_by_the_next_begin() -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        kafka.will("InitProducerId", *[14] * 1000)
        with pytest.raises(TransactionPendingError, match="COORDINATOR_LOAD_IN_PROGRESS"):
            await client.begin_transaction(timeout=1.0)
        kafka.will("InitProducerId")
        async with client.transaction():
            await client.produce(TOPIC, b"")
        assert kafka.known.epoch == 1

    with_played(body)


def test_a_client_without_a_transactional_id_has_no_transactions() -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        with pytest.raises(ValueError, match="set transactional_id"):
            await client.begin_transaction()

    with_played(body, transactional_id="")


def test_a_rise_of_the_version_is_seen_by_the_next_transaction() -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        async with client.transaction():
            await client.produce(TOPIC, b"", partition=0)
        kafka.version, kafka.features_epoch = 2, 2
        client._running()._brokers.features._levels["transaction.version"] = 2
        for _ in range(2):
            async with client.transaction():
                await client.produce(TOPIC, b"", partition=0)
        assert kafka.versions("EndTxn") == [4, 5, 5]
        assert [each.producer_epoch for each in kafka.log[0]] == [0, 1, 2]

    with_played(body, 1)


# The end of the client


def test_a_client_that_is_closed_aborts_its_transaction() -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        await client.begin_transaction()
        await (await client.produce(TOPIC, b""))
        await client.close()
        assert [commit for commit, _ in kafka.ends] == [False]

    with_played(body)


def test_a_client_that_is_closed_waits_for_a_commit_that_is_pending() -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        transaction = await client.begin_transaction()
        await (await client.produce(TOPIC, b""))
        kafka.will("EndTxn", 15, 15, 15)
        with pytest.raises(TransactionPendingError):
            await transaction.commit(timeout=0.001)
        await client.close()
        assert [commit for commit, _ in kafka.ends] == [True]

    with_played(body)


def test_closing_does_not_wait_longer_than_it_may_for_a_coordinator() -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        await client.begin_transaction()
        await (await client.produce(TOPIC, b""))
        kafka.will("EndTxn", *[15] * 10_000)
        began = world.clock.monotonic()
        await client.close(2.0)
        assert world.clock.monotonic() - began < 10

    with_played(body)


@BOTH
def test_a_purge_gives_up_what_was_not_sent_and_the_identity_goes_on_with_its_sequences(version: int) -> None:
    async def body(world: World, kafka: PlayedKafka, client: AsyncClient) -> None:
        async with client.transaction():
            await (await client.produce(TOPIC, b"", partition=0))
        assert await client.purge_topics(TOPIC) == 0
        transaction = await client.begin_transaction()
        await (await client.produce(TOPIC, b"", partition=0))
        await client.produce(TOPIC, b"", partition=0)
        assert await client.purge_topics(TOPIC) == 1
        assert client.transaction_state.status is S.ABORTABLE_ERROR, "as after any record that failed"
        await transaction.abort()
        async with client.transaction():
            await (await client.produce(TOPIC, b"", partition=0))
        assert [commit for commit, _ in kafka.ends] == [True, False, True]
        found = [(each.producer_epoch, each.base_sequence) for each in kafka.log[0]]
        assert len(found) == len(set(found)) == 3

    with_played(body, version)
