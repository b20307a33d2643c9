"""Fetch sessions: what is remembered of a client's fetches, and what an incremental answer leaves out."""

from __future__ import annotations

from random import Random

import pytest

from ottla.broker.replication.partition import Partition
from ottla.broker.server.fetch_sessions import FetchSessions, SessionPartition
from ottla.wire import Uuid
from ottla.wire.messages import FetchRequest, FetchResponse
from tests.broker.log.support import open_log

NOT_FOUND, WRONG_EPOCH, TOPIC_ID_ERROR = 70, 71, 106
ORDERS = Uuid(b"orders orders or")
PartitionData = FetchResponse.PartitionData


def names(topic_id: Uuid) -> str | None:
    return "orders" if topic_id == ORDERS else None


def request(session_id: int, epoch: int, *partitions: int, offset: int = 0) -> FetchRequest:
    requested = [FetchRequest.FetchPartition(partition=number, fetch_offset=offset) for number in partitions]
    topics = (
        [FetchRequest.FetchTopic(topic="orders", topic_id=ORDERS, partitions=requested)] if requested else []
    )
    return FetchRequest(session_id=session_id, session_epoch=epoch, topics=topics)


def results(
    partitions: list[SessionPartition], records: bytes = b"", watermark: int = 10
) -> list[tuple[SessionPartition, PartitionData]]:
    return [
        (each, PartitionData(partition_index=each.partition, high_watermark=watermark, records=records))
        for each in partitions
    ]


def mentioned(response: FetchResponse) -> list[int]:
    return [part.partition_index for topic in response.responses for part in topic.partitions]


def opened(sessions: FetchSessions, *partitions: int, version: int = 12) -> int:
    context = sessions.open(request(0, 0, *partitions), version, names, 0.0)
    return context.respond(results(context.partitions)).session_id


def test_without_a_session_everything_is_answered_and_nothing_remembered() -> None:
    sessions = FetchSessions(Random(1))
    context = sessions.open(request(0, -1, 0, 1), 12, names, 0.0)
    assert mentioned(context.respond(results(context.partitions))) == [0, 1]
    assert context.respond([]).session_id == 0
    assert len(sessions) == 0


def test_an_incremental_response_mentions_only_what_changed() -> None:
    sessions = FetchSessions(Random(1))
    session = opened(sessions, 0, 1)
    assert session > 0
    context = sessions.open(request(session, 1), 12, names, 0.0)
    assert [each.partition for each in context.partitions] == [0, 1]
    assert mentioned(context.respond(results(context.partitions))) == []
    context = sessions.open(request(session, 2), 12, names, 0.0)
    first, second = results(context.partitions)
    second[1].high_watermark = 11
    assert mentioned(context.respond([first, second])) == [1]


def test_an_error_is_mentioned_and_so_is_its_end() -> None:
    sessions = FetchSessions(Random(1))
    session = opened(sessions, 0)
    responses = []
    for epoch, code in ((1, 6), (2, 6), (3, 0), (4, 0)):
        context = sessions.open(request(session, epoch), 12, names, 0.0)
        ((partition, result),) = results(context.partitions)
        result.error_code = code
        if code:
            result.high_watermark = -1
        responses.append(mentioned(context.respond([(partition, result)])))
    assert responses == [[0], [0], [0], []]


def test_partitions_come_change_and_are_forgotten() -> None:
    sessions = FetchSessions(Random(1))
    session = opened(sessions, 0, 1)
    change = request(session, 1, 1, 2, offset=7)
    change.forgotten_topics_data = [FetchRequest.ForgottenTopic(topic="orders", partitions=[0])]
    context = sessions.open(change, 12, names, 0.0)
    assert [(each.partition, each.request.fetch_offset) for each in context.partitions] == [(1, 7), (2, 7)]


def test_a_session_that_is_emptied_ends() -> None:
    sessions = FetchSessions(Random(1))
    session = opened(sessions, 0)
    forget = request(session, 1)
    forget.forgotten_topics_data = [FetchRequest.ForgottenTopic(topic="orders", partitions=[0])]
    context = sessions.open(forget, 12, names, 0.0)
    assert context.respond([]).session_id == 0
    assert len(sessions) == 0


def test_an_unknown_session_and_a_wrong_epoch_are_refused() -> None:
    sessions = FetchSessions(Random(1))
    session = opened(sessions, 0)
    unknown = sessions.open(request(session + 1, 1), 12, names, 0.0)
    assert unknown.respond([]).error_code == NOT_FOUND
    assert sessions.open(request(session, 5), 12, names, 0.0).respond([]).error_code == WRONG_EPOCH
    assert sessions.open(request(session, 1), 13, names, 0.0).respond([]).error_code == TOPIC_ID_ERROR
    assert sessions.open(request(session, 1), 12, names, 0.0).error is None


def test_epochs_go_from_the_largest_to_one() -> None:
    sessions = FetchSessions(Random(1))
    session = opened(sessions, 0)
    sessions._sessions[session].epoch = 0x7FFFFFFF
    assert sessions.open(request(session, 0x7FFFFFFF), 12, names, 0.0).error is None
    assert sessions.open(request(session, 1), 12, names, 0.0).error is None


def test_the_final_epoch_closes_a_session_and_a_full_fetch_replaces_it() -> None:
    sessions = FetchSessions(Random(1))
    session = opened(sessions, 0)
    sessions.open(request(session, -1, 0), 12, names, 0.0)
    assert len(sessions) == 0
    session = opened(sessions, 0)
    context = sessions.open(request(session, 0, 0), 12, names, 0.0)
    assert context.session is not None
    assert context.session.id != session
    assert len(sessions) == 1


def test_partitions_with_data_go_behind_the_others() -> None:
    sessions = FetchSessions(Random(1))
    session = opened(sessions, 0, 1, 2)
    context = sessions.open(request(session, 1), 12, names, 0.0)
    found = results(context.partitions)
    found[0][1].records = b"data"
    context.respond(found)
    again = sessions.open(request(session, 2), 12, names, 0.0)
    assert [each.partition for each in again.partitions] == [1, 2, 0]


def test_a_full_cache_gives_no_session_until_one_is_old() -> None:
    sessions = FetchSessions(Random(1), slots=2, eviction=120)
    first, second = opened(sessions, 0), opened(sessions, 0)
    assert opened(sessions, 0) == 0
    sessions.open(request(second, 1), 12, names, 100.0)
    context = sessions.open(request(0, 0, 0), 12, names, 130.0)
    assert context.session is not None
    assert sessions.open(request(first, 1), 12, names, 130.0).error is not None
    assert sessions.open(request(second, 2), 12, names, 130.0).error is None


def test_topics_are_known_by_id_since_version_13() -> None:
    sessions = FetchSessions(Random(1))
    context = sessions.open(request(0, 0, 0), 13, lambda _: None, 0.0)
    assert [each.topic for each in context.partitions] == [None]
    session = context.respond(results(context.partitions)).session_id
    come = sessions.open(request(session, 1), 13, names, 0.0)
    assert [each.topic for each in come.partitions] == ["orders"]
    # As in Kafka, which goes on asking for the name that the topic had.
    gone = sessions.open(request(session, 2), 13, lambda _: None, 0.0)
    assert [each.topic for each in gone.partitions] == ["orders"]


def test_the_fetches_of_a_session_have_their_times_in_common_and_others_have_their_own() -> None:
    sessions = FetchSessions(Random(1))
    session = opened(sessions, 0, 1)
    first = sessions.open(request(session, 1), 12, names, 5.0).times(5.0)
    again = sessions.open(request(session, 2), 12, names, 7.0).times(7.0)
    assert again is first
    assert (first.before, first.latest) == (5.0, 7.0)
    alone = sessions.open(request(0, -1, 0), 12, names, 8.0).times(8.0)
    assert alone is not first
    assert alone.latest == 8.0


def replica() -> Partition:
    return Partition(1, "orders", ORDERS, 0, open_log())


def test_a_partition_of_which_there_is_nothing_to_say_is_quiet_until_it_changes() -> None:
    partition = replica()
    known = SessionPartition("orders", ORDERS, FetchRequest.FetchPartition(partition=0))
    result = PartitionData(high_watermark=0, log_start_offset=0)
    known.note_quiet(partition, result)
    assert known.seen == -1, "the first response says where the log is"
    known.update(result)
    known.note_quiet(partition, result)
    assert (known.quiet, known.seen) == (partition, partition.changes)
    partition.changes += 1
    assert known.seen != partition.changes


@pytest.mark.parametrize(
    "news",
    [
        PartitionData(high_watermark=0, log_start_offset=0, records=b"records"),
        PartitionData(high_watermark=1, log_start_offset=0),
        PartitionData(high_watermark=0, log_start_offset=1),
    ],
    ids=["records", "high watermark", "log start"],
)
def test_a_partition_with_news_is_not_quiet(news: PartitionData) -> None:
    partition = replica()
    known = SessionPartition("orders", ORDERS, FetchRequest.FetchPartition(partition=0))
    said = PartitionData(high_watermark=0, log_start_offset=0)
    known.update(said)
    known.note_quiet(partition, said)
    known.note_quiet(partition, news)
    assert (known.quiet, known.seen) == (None, -1)


def test_a_watermark_that_this_very_fetch_has_moved_is_news_for_the_next_response() -> None:
    partition = replica()
    known = SessionPartition("orders", ORDERS, FetchRequest.FetchPartition(partition=0))
    said = PartitionData(high_watermark=0, log_start_offset=0)
    known.update(said)
    partition.high_watermark = 1
    known.note_quiet(partition, said)
    assert known.quiet is None


def test_a_partition_that_is_named_again_is_looked_at_again() -> None:
    sessions = FetchSessions(Random(1))
    session = opened(sessions, 0, 1)
    for known in sessions.peek(session):
        known.quiet = replica()
    sessions.open(request(session, 1, 1, offset=5), 12, names, 0.0)
    assert [known.quiet is None for known in sessions.peek(session)] == [False, True]
