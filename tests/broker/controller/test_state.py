"""What holds after any sequence of events."""

from __future__ import annotations

import operator

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ottla.broker.controller.decision import MIN_ISR
from ottla.broker.metadata import records
from ottla.broker.metadata.image import MetadataImage
from ottla.broker.metadata.records import NO_LEADER, ConfigRecord
from ottla.errors import BrokerError
from ottla.wire import Uuid
from ottla.wire.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    CreatePartitionsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    UnregisterBrokerRequest,
)
from ottla.wire.resources import ConfigResourceType
from tests.broker.controller.support import SESSION, UNCLEAN, Controller

INVALID_UPDATE_VERSION = 95
INELIGIBLE_REPLICA = 107
NEW_LEADER_ELECTED = 108

BROKERS = st.integers(1, 4)
TOPICS = st.sampled_from(["a", "b"])
INDEXES = st.integers(0, 3)
SELDOM = st.sampled_from([False, False, False, True])
REPLICAS = st.lists(BROKERS, min_size=1, max_size=4, unique=True)


class Invariants(RuleBasedStateMachine):
    """A controller, and what holds whatever happens to it."""

    def begin(self, controller: Controller, elr: bool) -> None:
        self.controller = controller
        self.elr = elr
        self.replayed = MetadataImage()
        self.forgot = False
        self.epochs: dict[tuple[Uuid, int], tuple[int, int]] = {}
        self.leaders: dict[tuple[Uuid, int, int], int] = {}

    def expire_all(self) -> None:
        while made := self.controller.state.expire(self.controller.now):
            self.controller.commit(made)

    def register_anew(self, broker_id: int, clean: bool) -> None:
        """A new incarnation, if it may be. It is in sync with nothing, and if not clean, not even eligible."""
        known = self.controller.state.image.brokers.get(broker_id)
        previous = known.epoch if clean and known is not None else -1
        answer = self.controller.register(
            broker_id, rack=f"rack{broker_id % 2}", previous_broker_epoch=previous
        )
        for _, _, partition in self.controller.state.image.all_partitions() if not answer.error_code else ():
            assert self.elr is False or broker_id not in partition.isr
            assert previous != -1 or broker_id not in partition.elr
            assert partition.leader != broker_id

    def change_min_isr_of(self, topic: str, min_isr: int) -> None:
        config = IncrementalAlterConfigsRequest.AlterableConfig(name=MIN_ISR, value=str(min_isr))
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=ConfigResourceType.TOPIC, resource_name=topic, configs=[config]
        )
        request = IncrementalAlterConfigsRequest(resources=[resource])
        self.controller.carry_out(self.controller.state.incremental_alter_configs(request))
        # Whoever was eligible is forgotten, so a partition without a leader may be without one for good.
        self.forgot = True

    def reassign_to(self, topic: str, index: int, replicas: list[int] | None) -> None:
        partition = AlterPartitionReassignmentsRequest.ReassignablePartition(
            partition_index=index, replicas=replicas
        )
        moved = AlterPartitionReassignmentsRequest.ReassignableTopic(name=topic, partitions=[partition])
        request = AlterPartitionReassignmentsRequest(topics=[moved])
        self.controller.carry_out(self.controller.state.alter_partition_reassignments(request))

    @rule(broker_id=BROKERS)
    def kill(self, broker_id: int) -> None:
        self.controller.fence(broker_id)

    @rule(broker_id=BROKERS, clean=st.booleans())
    def restart(self, broker_id: int, clean: bool) -> None:
        self.controller.fence(broker_id)
        self.register_anew(broker_id, clean)
        self.controller.heartbeat(broker_id)

    @rule(broker_id=BROKERS)
    def unregister(self, broker_id: int) -> None:
        request = UnregisterBrokerRequest(broker_id=broker_id)
        self.controller.carry_out(self.controller.state.unregister_broker(request))

    @rule(election_type=st.integers(0, 1))
    def elect(self, election_type: int) -> None:
        request = ElectLeadersRequest(election_type=election_type, topic_partitions=None)
        self.controller.carry_out(self.controller.state.elect_leaders(request))

    @rule()
    def look_after_leaders(self) -> None:
        self.controller.commit(self.controller.state.balance_leaders())
        self.controller.commit(self.controller.state.elect_unclean_leaders())

    @invariant()
    def partitions_make_sense(self) -> None:
        image = self.controller.state.image
        for topic, _, partition in image.all_partitions():
            assert len(set(partition.replicas)) == len(partition.replicas) > 0
            assert len(set(partition.isr)) == len(partition.isr)
            assert set(partition.isr) | set(partition.elr) <= set(partition.replicas)
            assert partition.isr or self.elr
            assert set(partition.adding) | set(partition.removing) <= set(partition.replicas)
            if partition.has_leader:
                assert partition.leader in partition.isr
                assert image.is_active(partition.leader)
            else:
                assert not any(map(image.is_active, partition.isr or partition.elr))
            assert image.topics_by_id[topic.id] is image.topics[topic.name] is topic

    @invariant()
    def eligible_are_only_those_outside_of_an_isr_that_is_too_small(self) -> None:
        for topic, _, partition in self.controller.state.image.all_partitions():
            if partition.elr:
                assert self.elr
                assert not set(partition.elr) & set(partition.isr)
                overrides = self.controller.state.image.config_overrides(ConfigResourceType.TOPIC, topic.name)
                assert len(partition.isr) < min(int(overrides[MIN_ISR]), len(partition.replicas))
            assert bool(partition.last_known_elr) <= (self.elr and not partition.has_leader)

    @invariant()
    def epochs_only_grow_and_have_one_leader_each(self) -> None:
        for topic, index, partition in self.controller.state.image.all_partitions():
            key = (topic.id, index)
            now = (partition.leader_epoch, partition.partition_epoch)
            before = self.epochs.get(key, (0, 0))
            assert now[0] >= before[0]
            assert now[1] >= before[1]
            self.epochs[key] = now
            known = self.leaders.setdefault((*key, partition.leader_epoch), partition.leader)
            assert known == partition.leader

    @invariant()
    def the_log_replays_into_the_same_image(self) -> None:
        for record in self.controller.log[self.replayed.offset + 1 :]:
            self.replayed.apply(records.decode(records.encode(record)))
        assert self.replayed == self.controller.state.image

    def teardown(self) -> None:
        """A cluster whose brokers all return has all its leaders."""
        if not hasattr(self, "controller"):
            return
        self.controller.now += 2 * SESSION
        self.expire_all()
        for broker_id in (1, 2, 3, 4):
            self.controller.start(broker_id)
        for _, _, partition in self.controller.state.image.all_partitions():
            assert partition.leader != NO_LEADER or self.forgot


class AnyEvents(Invariants):
    """Brokers come, go and fall silent while people create, move and delete."""

    @initialize(seed=st.integers(0, 1000), elr=SELDOM.map(operator.not_))
    def start(self, seed: int, elr: bool) -> None:
        self.begin(Controller([1, 2, 3], seed=seed, elr=elr), elr)

    @rule(broker_id=BROKERS, clean=st.booleans())
    def register(self, broker_id: int, clean: bool) -> None:
        self.register_anew(broker_id, clean)

    @rule(broker_id=BROKERS, behind=st.integers(0, 3), fence=SELDOM, shut_down=SELDOM)
    def heartbeat(self, broker_id: int, behind: int, fence: bool, shut_down: bool) -> None:
        offset = self.controller.state.image.offset - behind
        self.controller.heartbeat(
            broker_id, current_metadata_offset=offset, want_fence=fence, want_shut_down=shut_down
        )

    @rule()
    def everyone_is_well(self) -> None:
        for broker_id in list(self.controller.state.image.brokers):
            self.controller.heartbeat(broker_id)

    @rule(seconds=st.floats(0, SESSION))
    def time_passes(self, seconds: float) -> None:
        self.controller.now += seconds
        self.expire_all()

    @rule(
        topic=TOPICS,
        partitions=st.integers(1, 3),
        factor=st.integers(1, 4),
        unclean=SELDOM,
        min_isr=st.integers(1, 4),
    )
    def create(self, topic: str, partitions: int, factor: int, unclean: bool, min_isr: int) -> None:
        self.controller.create(
            topic,
            partitions=partitions,
            replication_factor=factor,
            configs={UNCLEAN: str(unclean).lower(), MIN_ISR: str(min_isr)},
        )

    @rule(topic=TOPICS, min_isr=st.integers(1, 4))
    def change_min_isr(self, topic: str, min_isr: int) -> None:
        self.change_min_isr_of(topic, min_isr)

    @rule(topic=TOPICS, count=st.integers(1, 5))
    def grow(self, topic: str, count: int) -> None:
        wanted = CreatePartitionsRequest.CreatePartitionsTopic(name=topic, count=count, assignments=None)
        request = CreatePartitionsRequest(timeout_ms=5_000, topics=[wanted])
        self.controller.carry_out(self.controller.state.create_partitions(request))

    @rule(topic=TOPICS)
    def delete(self, topic: str) -> None:
        request = DeleteTopicsRequest(
            timeout_ms=5_000, topics=[DeleteTopicsRequest.DeleteTopicState(name=topic)]
        )
        self.controller.carry_out(self.controller.state.delete_topics(request, 6))

    @rule(topic=TOPICS, index=INDEXES, broker_id=BROKERS)
    def move_leader(self, topic: str, index: int, broker_id: int) -> None:
        try:
            made = self.controller.state.move_leader(topic, index, broker_id)
        except BrokerError:
            return
        self.controller.commit(made)
        assert self.controller.partition(topic, index).leader == broker_id

    @rule(topic=TOPICS, index=INDEXES, replicas=st.none() | REPLICAS)
    def reassign(self, topic: str, index: int, replicas: list[int] | None) -> None:
        self.reassign_to(topic, index, replicas)

    @rule(topic=TOPICS, index=INDEXES, isr=REPLICAS)
    def report_in_sync(self, topic: str, index: int, isr: list[int]) -> None:
        image = self.controller.state.image
        partition = image.partition(topic, index)
        if partition is None or not partition.has_leader:
            return
        data = AlterPartitionRequest.PartitionData(
            partition_index=index,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr=isr,
        )
        known = AlterPartitionRequest.TopicData(topic_id=image.topics[topic].id, partitions=[data])
        request = AlterPartitionRequest(
            broker_id=partition.leader, broker_epoch=self.controller.epoch(partition.leader), topics=[known]
        )
        self.controller.carry_out(self.controller.state.alter_partition(request, 2))


class OnePartition(Invariants):
    """Brokers come and go under one partition, whose leader counts its followers in and out."""

    @initialize(
        factor=st.integers(1, 4), min_isr=st.integers(1, 4), unclean=SELDOM, elr=SELDOM.map(operator.not_)
    )
    def start(self, factor: int, min_isr: int, unclean: bool, elr: bool) -> None:
        self.begin(Controller([1, 2, 3, 4], elr=elr), elr)
        configs = {UNCLEAN: str(unclean).lower(), MIN_ISR: str(min_isr)}
        self.controller.create("t", [range(1, factor + 1)], configs=configs)
        self.before = self.controller.partition("t")
        self.may_join: set[int] = set()

    @rule(broker_id=BROKERS)
    def wake(self, broker_id: int) -> None:
        self.controller.heartbeat(broker_id)

    @rule(broker_id=BROKERS)
    def stop(self, broker_id: int) -> None:
        self.controller.heartbeat(broker_id, want_shut_down=True)

    @rule(min_isr=st.integers(1, 4))
    def change_min_isr(self, min_isr: int) -> None:
        self.change_min_isr_of("t", min_isr)

    @rule(replicas=REPLICAS)
    def reassign(self, replicas: list[int]) -> None:
        self.reassign_to("t", 0, replicas)

    @rule()
    def cancel(self) -> None:
        # Where no one of before is in sync, Kafka takes the first of them for it.
        first = [each for each in self.before.replicas if each not in self.before.adding][:1]
        self.may_join = set(first)
        self.reassign_to("t", 0, None)

    @rule()
    def catch_up(self) -> None:
        active = filter(self.controller.state.image.is_active, self.before.replicas)
        self.report(set(active), stale=None, is_late=False)

    @rule(others=st.sets(BROKERS), stale=st.none() | BROKERS, is_late=SELDOM)
    def report(self, others: set[int], stale: int | None, is_late: bool) -> None:
        """The leader reports an ISR, in which it may know another incarnation of one replica, or too late."""
        image, partition = self.controller.state.image, self.controller.partition("t")
        if not partition.has_leader or (is_late and not partition.partition_epoch):
            return
        isr = [partition.leader, *sorted(others & set(partition.replicas) - {partition.leader})]
        answer = self.controller.report_isr(
            "t",
            isr,
            broker_epochs={} if stale is None else {stale: 2**40},
            partition_epoch=partition.partition_epoch - is_late,
        )
        eligible = stale not in isr and all(map(image.is_active, isr))
        if is_late or not eligible:
            assert answer.error_code == (INVALID_UPDATE_VERSION if is_late else INELIGIBLE_REPLICA)
            assert self.controller.partition("t") == partition
            return
        self.may_join = set(isr)
        after = self.controller.partition("t")
        moved = partition.is_reassigning and after.leader != partition.leader
        assert answer.error_code == (NEW_LEADER_ELECTED if moved else 0)
        assert set(after.isr) == set(isr) & set(after.replicas)
        assert not after.recovering

    @invariant()
    def replicas_join_the_isr_by_a_report_or_to_lead(self) -> None:
        before, after = self.before, self.controller.partition("t")
        joined = set(after.isr) - set(before.isr) - self.may_join
        assert joined <= {after.leader}
        assert not joined or after.leader in before.elr or after.recovering, "a loss that no one hears of"
        self.before, self.may_join = after, set()


TestAnyEvents = AnyEvents.TestCase
TestAnyEvents.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
TestOnePartition = OnePartition.TestCase
TestOnePartition.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)


def test_a_log_replays_into_a_new_controller() -> None:
    first = Controller([1, 2, 3])
    first.create("t", partitions=5, replication_factor=2)
    first.fence(2)
    second = Controller(seed=1, elr=False)
    second.commit(first.log)
    assert second.state.image == first.state.image
    assert not second.heartbeat(2).is_fenced


def test_a_new_cluster_says_once_for_all_brokers_how_small_an_isr_may_be() -> None:
    controller = Controller(min_insync_replicas=2)
    assert controller.state.bootstrap()[-1] == ConfigRecord(
        ConfigResourceType.BROKER, "", "min.insync.replicas", "2"
    )
