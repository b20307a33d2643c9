from ottla.broker.controller.brokers import BrokerSessions


def test_a_session_lasts_from_heartbeat_to_heartbeat() -> None:
    sessions = BrokerSessions(9.0)
    sessions.touch(1, broker_epoch=5, metadata_offset=0, now=0.0)
    assert sessions.is_valid(1, 5, now=8.9)
    assert sessions.stale(now=8.9) == []
    sessions.touch(1, broker_epoch=5, metadata_offset=0, now=8.0)
    assert sessions.is_valid(1, 5, now=16.9)
    assert not sessions.is_valid(1, 5, now=17.0)
    assert sessions.stale(now=17.0) == [1]


def test_the_session_of_one_incarnation_is_not_that_of_another() -> None:
    sessions = BrokerSessions(9.0)
    sessions.touch(1, broker_epoch=5, metadata_offset=0, now=0.0).shutdown_offset = 3
    assert not sessions.is_valid(1, 6, now=0.0)
    assert sessions.touch(1, broker_epoch=6, metadata_offset=0, now=1.0).shutdown_offset is None
    assert not sessions.is_valid(1, 5, now=1.0)


def test_the_longest_silent_is_stale_first() -> None:
    sessions = BrokerSessions(1.0)
    for broker_id, now in ((1, 3.0), (2, 1.0), (3, 2.0)):
        sessions.touch(broker_id, broker_epoch=0, metadata_offset=0, now=now)
    assert sessions.next_expiry == 2.0
    assert sessions.stale(now=3.5) == [2, 3]
    assert sessions.stale(now=9.0) == [2, 3, 1]


def test_without_sessions_nothing_expires() -> None:
    sessions = BrokerSessions(1.0)
    assert sessions.next_expiry is None
    sessions.touch(1, broker_epoch=0, metadata_offset=0, now=0.0)
    sessions.end(1)
    sessions.end(1)
    assert sessions.next_expiry is None
    assert sessions.get(1) is None


def test_the_timer_of_the_next_expiry_finds_it_expired() -> None:
    sessions = BrokerSessions(0.1)
    sessions.touch(1, broker_epoch=0, metadata_offset=0, now=0.2)
    assert sessions.next_expiry is not None
    assert sessions.stale(sessions.next_expiry) == [1]


def test_offsets_that_are_noted_never_go_back() -> None:
    sessions = BrokerSessions(1.0)
    sessions.note_offset(1, 5)
    session = sessions.touch(1, broker_epoch=0, metadata_offset=3, now=0.0)
    sessions.note_offset(1, 7)
    sessions.note_offset(1, 6)
    assert session.metadata_offset == 7
