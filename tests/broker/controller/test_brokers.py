import pytest

from ottla.broker.metadata.records import NO_LEADER, BrokerChangeRecord, BrokerEndpoint
from ottla.wire import Uuid
from ottla.wire.messages import BrokerRegistrationRequest, UnregisterBrokerRequest
from tests.broker.controller.support import SESSION, UNCLEAN, Controller, state_of

BROKER_ID_NOT_REGISTERED = 102
DUPLICATE_BROKER_REGISTRATION = 101
INCONSISTENT_CLUSTER_ID = 104
STALE_BROKER_EPOCH = 77
UNSUPPORTED_VERSION = 35


def test_a_broker_registers_fenced_with_all_it_says_of_itself() -> None:
    controller = Controller()
    feature = BrokerRegistrationRequest.Feature(
        name="group.version", min_supported_version=0, max_supported_version=1
    )
    answer = controller.register(4, incarnation=77, rack="a", features=[feature])
    broker = controller.state.image.brokers[4]
    assert answer.error_code == 0
    assert answer.broker_epoch == broker.epoch
    assert broker.fenced
    assert broker.rack == "a"
    assert broker.incarnation_id == Uuid((77).to_bytes(16, "big"))
    assert broker.listeners == (BrokerEndpoint("PLAINTEXT", "here", 9004),)
    assert [(known.name, known.max_version) for known in broker.features] == [("group.version", 1)]


def test_a_later_incarnation_has_a_higher_epoch() -> None:
    controller = Controller([1])
    first = controller.epoch(1)
    controller.heartbeat(1, want_shut_down=True)
    assert controller.start(1) > first


def test_the_same_incarnation_keeps_its_epoch_and_stays_unfenced() -> None:
    controller = Controller()
    epoch = controller.register(1, incarnation=5).broker_epoch
    controller.heartbeat(1)
    assert controller.register(1, incarnation=5, rack="new").broker_epoch == epoch
    broker = controller.state.image.brokers[1]
    assert (broker.rack, broker.fenced) == ("new", False)


def test_a_broker_of_another_cluster_is_refused() -> None:
    controller = Controller()
    answer = controller.register(1, cluster_id="another")
    assert (answer.error_code, answer.broker_epoch) == (INCONSISTENT_CLUSTER_ID, -1)
    assert controller.state.image.brokers == {}


def test_an_id_whose_owner_is_alive_is_refused() -> None:
    controller = Controller([1])
    assert controller.register(1).error_code == DUPLICATE_BROKER_REGISTRATION
    controller.now += SESSION
    assert controller.register(1).error_code == 0


def test_an_id_whose_owner_has_said_goodbye_is_free_at_once() -> None:
    controller = Controller([1])
    assert controller.heartbeat(1, want_shut_down=True).should_shut_down
    assert controller.register(1).error_code == 0


def test_a_broker_that_never_sent_a_heartbeat_may_be_replaced() -> None:
    controller = Controller()
    controller.register(1)
    assert controller.register(1).error_code == 0


def test_a_new_incarnation_has_lost_what_the_old_one_led() -> None:
    controller = Controller([1, 2])
    controller.create("t", [[1, 2]])
    controller.now += SESSION
    controller.heartbeat(2)
    assert controller.register(1).error_code == 0
    assert state_of(controller.partition("t")) == (2, (2,))


def test_a_broker_has_to_support_the_level_of_a_feature() -> None:
    controller = Controller()
    controller.commit(controller.state.bootstrap())
    too_new = BrokerRegistrationRequest.Feature(
        name="group.version", min_supported_version=2, max_supported_version=3
    )
    assert controller.register(1, features=[too_new]).error_code == UNSUPPORTED_VERSION


def test_a_heartbeat_with_the_wrong_epoch_is_stale() -> None:
    controller = Controller([1])
    assert controller.heartbeat(1, broker_epoch=99).error_code == STALE_BROKER_EPOCH
    assert controller.heartbeat(2).error_code == STALE_BROKER_EPOCH


def test_a_broker_is_unfenced_when_it_has_read_its_own_registration() -> None:
    controller = Controller()
    controller.register(1)
    answer = controller.heartbeat(1, current_metadata_offset=-1)
    assert (answer.is_caught_up, answer.is_fenced) == (False, True)
    answer = controller.heartbeat(1, want_fence=True)
    assert (answer.is_caught_up, answer.is_fenced) == (True, True)
    answer = controller.heartbeat(1)
    assert (answer.is_caught_up, answer.is_fenced) == (True, False)
    assert controller.state.image.brokers[1].alive


def test_heartbeats_that_change_nothing_write_nothing() -> None:
    controller = Controller([1])
    before = len(controller.log)
    controller.heartbeat(1)
    assert len(controller.log) == before


def test_a_silent_broker_is_fenced_and_others_lead() -> None:
    controller = Controller([1, 2, 3])
    controller.create("t", [[1, 2, 3], [2, 3, 1]])
    controller.now += SESSION / 2
    controller.heartbeat(2)
    controller.heartbeat(3)
    controller.now += SESSION / 2
    delta = controller.commit(controller.state.expire(controller.now))
    assert list(delta.brokers) == [1]
    assert state_of(controller.partition("t", 0)) == (2, (2, 3))
    assert state_of(controller.partition("t", 1)) == (2, (2, 3))
    assert [controller.partition("t", index).leader_epoch for index in (0, 1)] == [1, 0]
    assert controller.state.expire(controller.now) == []


@pytest.mark.parametrize(("elr", "isr", "eligible"), [(True, (), (2,)), (False, (2,), ())])
def test_brokers_that_fall_silent_together_are_fenced_one_by_one_and_the_last_heard_leads_last(
    elr: bool, isr: tuple[int, ...], eligible: tuple[int, ...]
) -> None:
    controller = Controller([1, 2], elr=elr)
    controller.create("t", [[2, 1]])
    controller.now += 1
    controller.heartbeat(2)
    controller.now += SESSION
    controller.commit(controller.state.expire(controller.now))
    assert [broker.id for broker in controller.state.image.alive_brokers()] == [2]
    assert controller.state.next_expiry == controller.now, "so the next look comes at once"
    controller.commit(controller.state.expire(controller.now))
    assert state_of(controller.partition("t")) == (NO_LEADER, isr)
    assert (controller.partition("t").elr, controller.partition("t").last_known_elr) == (eligible, eligible)
    assert controller.state.expire(controller.now) == []


def test_a_fenced_broker_whose_session_ends_is_no_news() -> None:
    controller = Controller([1])
    controller.register(2)
    controller.heartbeat(2, want_fence=True)
    controller.now += 1
    controller.heartbeat(1)
    controller.now += SESSION
    controller.commit(controller.state.expire(controller.now))
    assert not controller.state.image.alive_brokers(), "it is passed over for the one that was alive"


def test_the_next_expiry_follows_the_heartbeats() -> None:
    controller = Controller()
    assert controller.state.next_expiry is None
    controller.start(1)
    assert controller.state.next_expiry == controller.now + SESSION


def test_a_silent_broker_comes_back_with_a_heartbeat() -> None:
    controller = Controller([1])
    controller.create("t", [[1]])
    controller.now += SESSION
    controller.commit(controller.state.expire(controller.now))
    assert state_of(controller.partition("t")) == (NO_LEADER, ())
    assert not controller.heartbeat(1).is_fenced
    assert state_of(controller.partition("t")) == (1, (1,))
    assert controller.partition("t").leader_epoch == 2


def test_a_broker_may_ask_to_be_fenced() -> None:
    controller = Controller([1, 2])
    controller.create("t", [[1, 2]])
    assert controller.heartbeat(1, want_fence=True).is_fenced
    assert state_of(controller.partition("t")) == (2, (2,))


def test_a_broker_that_is_known_to_be_gone_is_fenced_at_once() -> None:
    controller = Controller([1, 2])
    controller.create("t", [[1, 2]])
    controller.fence(1)
    assert state_of(controller.partition("t")) == (2, (2,))
    assert controller.state.fence_broker(1) == []
    assert controller.state.fence_broker(9) == []
    assert controller.register(1).error_code == 0


def test_a_replica_that_returns_is_in_sync_when_the_leader_says_so() -> None:
    controller = Controller([1, 2])
    controller.create("t", [[1, 2]])
    controller.fence(1)
    controller.start(1)
    assert state_of(controller.partition("t")) == (2, (2,))
    assert controller.report_isr("t", [2, 1]).error_code == 0
    assert state_of(controller.partition("t")) == (2, (2, 1))
    assert controller.partition("t").leader_epoch == 1


@pytest.mark.parametrize(("elr", "isr"), [(True, ()), (False, (2,))])
def test_a_replica_that_returns_waits_for_the_last_leader(elr: bool, isr: tuple[int, ...]) -> None:
    controller = Controller([1, 2], elr=elr)
    controller.create("t", [[1, 2]])
    controller.fence(1)
    controller.fence(2)
    controller.start(1)
    assert state_of(controller.partition("t")) == (NO_LEADER, isr)
    controller.start(2)
    assert state_of(controller.partition("t")) == (2, (2,))
    # Nothing says that it was shut down cleanly: with ELR it is not trusted with all records, without it is.
    assert controller.partition("t").recovering is elr


def test_an_unclean_election_is_held_where_the_topic_allows_it() -> None:
    controller = Controller([1, 2, 3])
    controller.create("t", [[1, 2, 3]], configs={UNCLEAN: "true"})
    controller.fence(2)
    controller.fence(3)
    controller.fence(1)
    assert controller.partition("t").leader == NO_LEADER
    controller.start(2)
    assert state_of(controller.partition("t")) == (2, (2,))
    controller.start(3)
    assert state_of(controller.partition("t")) == (2, (2,))
    assert controller.partition("t").recovering


def test_a_controlled_shutdown_moves_leaders_away_first() -> None:
    controller = Controller([1, 2])
    controller.create("t", [[1, 2], [1, 2]])
    answer = controller.heartbeat(1, want_shut_down=True)
    assert (answer.is_fenced, answer.should_shut_down) == (False, False)
    assert controller.state.image.brokers[1].in_controlled_shutdown
    assert state_of(controller.partition("t", 0)) == (2, (2,))

    assert not controller.heartbeat(1, want_shut_down=True).should_shut_down
    controller.heartbeat(2)
    answer = controller.heartbeat(1, want_shut_down=True)
    assert (answer.is_fenced, answer.should_shut_down) == (True, True)
    assert not controller.state.image.brokers[1].alive


def test_a_shutdown_need_not_wait_for_heartbeats_of_brokers_that_have_read_the_log() -> None:
    controller = Controller([1, 2])
    controller.create("t", [[1, 2]])
    controller.heartbeat(1, want_shut_down=True)
    controller.state.has_read(2, controller.state.image.offset)
    assert controller.heartbeat(1, want_shut_down=True).should_shut_down


def test_the_last_broker_may_go_with_all_it_leads() -> None:
    controller = Controller([1])
    controller.create("t", [[1]])
    assert not controller.heartbeat(1, want_shut_down=True).should_shut_down
    assert state_of(controller.partition("t")) == (NO_LEADER, ())
    assert controller.heartbeat(1, want_shut_down=True).should_shut_down
    controller.start(1, clean=True)
    assert state_of(controller.partition("t")) == (1, (1,))
    assert not controller.partition("t").recovering


def test_a_broker_that_leads_nothing_may_go_at_once() -> None:
    controller = Controller([1, 2])
    assert controller.heartbeat(2, want_shut_down=True).should_shut_down


def test_a_fenced_broker_may_go_at_once() -> None:
    controller = Controller()
    controller.register(1)
    before = len(controller.log)
    assert controller.heartbeat(1, want_shut_down=True).should_shut_down
    assert len(controller.log) == before


def test_a_broker_in_controlled_shutdown_gets_no_new_partitions_and_leads_none() -> None:
    controller = Controller([1, 2])
    controller.create("t", [[1, 2]])
    controller.heartbeat(1, want_shut_down=True)
    assert controller.create("u", partitions=4, replication_factor=1).error_code == 0
    assert {controller.partition("u", index).leader for index in range(4)} == {2}
    assert BrokerChangeRecord(1, controller.epoch(1), in_controlled_shutdown=True) in controller.log


def test_a_broker_that_was_told_to_go_and_stays_leads_nothing_until_it_registers_again() -> None:
    controller = Controller([1])
    controller.create("t", [[1]])
    controller.heartbeat(1, want_shut_down=True)
    assert controller.heartbeat(1, want_shut_down=True).should_shut_down
    assert not controller.heartbeat(1).is_fenced
    assert controller.partition("t").leader == NO_LEADER
    controller.fence(1)
    controller.start(1)
    assert controller.partition("t").leader == 1


def test_a_broker_is_unregistered_with_everything_it_led() -> None:
    controller = Controller([1, 2])
    controller.create("t", [[1, 2]])
    answer = controller.carry_out(controller.state.unregister_broker(UnregisterBrokerRequest(broker_id=1)))
    assert (answer.error_code, answer.error_message) == (0, "")
    assert list(controller.state.image.brokers) == [2]
    assert state_of(controller.partition("t")) == (2, (2,))


def test_a_broker_that_is_not_registered_cannot_be_unregistered() -> None:
    answer = Controller().state.unregister_broker(UnregisterBrokerRequest(broker_id=99)).response
    assert answer.error_code == BROKER_ID_NOT_REGISTERED
    assert answer.error_message == "Broker ID 99 is not currently registered"


def test_a_broker_that_has_left_gets_replicas_where_there_are_too_few_without_it() -> None:
    controller = Controller([1, 2])
    controller.create("led", [[2, 1]])
    while not controller.heartbeat(2, want_shut_down=True).should_shut_down:
        controller.heartbeat(1)
    controller.create("t", replication_factor=2)
    partition = controller.partition("t")
    assert (sorted(partition.replicas), partition.leader, partition.isr) == ([1, 2], 1, (1,))
