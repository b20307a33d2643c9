"""Random transactions: producers of two transactional ids, what they add, write and commit, and how that ends.

Markers are written in a broker's own time: after whatever may end a transaction the script waits until it is over.
What a producer says of itself (id, epoch, sequences) is what its broker has told it, or a little beside that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from ottla.wire import Message
from ottla.wire.batches import PlainRecord, encode_batch
from ottla.wire.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    OffsetFetchRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)
from tests.interop.comparison.world import World
from tests.interop.fuzz.drawing import FUTURE, PREFIX, Draw, FuzzStep, step, topic_id, versions_of

_IDS: Final = (f"{PREFIX}-x", f"{PREFIX}-y")
_NONE_SUCH: Final = f"{PREFIX}-z"
_GROUPS: Final = (f"{PREFIX}-g", f"{PREFIX}-h")
_UNKNOWN_PRODUCER: Final = 5_000_020
_TIMEOUT_MS: Final = 600_000

Forge = Callable[[int, int], tuple[int, int]]
"""What a producer says, by its id and epoch."""


@dataclass(frozen=True)
class _Spoken:
    """Who speaks in a request."""

    transactional_id: str
    forge: Forge
    words: str

    def identity(self, world: World) -> tuple[int, int]:
        found = world.values.get(f"{self.transactional_id} id", -1)
        return self.forge(found, world.values.get(f"{self.transactional_id} epoch", -1))


_FORGED: Final[dict[str, Forge]] = {
    "as told": lambda producer, epoch: (producer, epoch),
    "epoch before": lambda producer, epoch: (producer, epoch - 1),
    "epoch after": lambda producer, epoch: (producer, min(epoch + 1, 32767)),
    "first epoch": lambda producer, _epoch: (producer, 0),
    "no epoch": lambda producer, _epoch: (producer, -1),
    "another producer": lambda _producer, epoch: (_UNKNOWN_PRODUCER, epoch),
    "nobody": lambda _producer, _epoch: (-1, -1),
}


def _speaker(draw: Draw, chance: float = 0.85) -> _Spoken:
    transactional_id = draw.mostly(_IDS[0], _IDS[1], _IDS[1], _NONE_SUCH, "", chance=0.8)
    told, *others = _FORGED
    forged = draw.mostly(told, *others, chance=chance)
    return _Spoken(transactional_id, _FORGED[forged], f"{transactional_id!r} {forged}")


def _settled(transactional_id: str) -> list[FuzzStep]:
    """Until no markers are on their way: from then on time has no say."""

    def is_settled(answer: Any) -> bool:
        return not any(each.transaction_state.startswith("Prepare") for each in answer.transaction_states)

    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    words = f"DescribeTransactions {transactional_id!r} until it is settled"
    return [FuzzStep(words, 0, lambda _world: request, until=is_settled)]


def _learn(spoken: _Spoken) -> Callable[[World, Any], None]:
    """The identity that a response gives a producer."""

    def remember(world: World, answer: Any) -> None:
        if answer.error_code == 0 and answer.producer_id >= 0:
            world.values[f"{spoken.transactional_id} id"] = answer.producer_id
            world.values[f"{spoken.transactional_id} epoch"] = answer.producer_epoch

    return remember


def first_producers(draw: Draw) -> list[FuzzStep]:
    """What most scripts begin with: a producer that knows who it is."""
    return [each for name in _IDS[: draw.one(0, 1, 1, 2)] for each in _initialised(name)]


def _initialised(transactional_id: str) -> list[FuzzStep]:
    spoken = _Spoken(transactional_id, _FORGED["nobody"], repr(transactional_id))
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=_TIMEOUT_MS,
        producer_id=-1,
        producer_epoch=-1,
    )
    made = step(f"InitProducerId {transactional_id!r} for the first time", 5, lambda _world: request)
    return [replace(made, remember=_learn(spoken)), *_settled(transactional_id)]


def initialise(draw: Draw) -> list[FuzzStep]:
    spoken = _speaker(draw, chance=0.3)
    if draw.often(0.7):
        spoken = replace(spoken, forge=_FORGED["nobody"], words=f"{spoken.transactional_id!r}")
    timeout = draw.mostly(_TIMEOUT_MS, 0, -1, 900_000, 900_001, 2**31 - 1, chance=0.9)

    def build(world: World) -> Message:
        producer, epoch = spoken.identity(world)
        return InitProducerIdRequest(
            transactional_id=spoken.transactional_id,
            transaction_timeout_ms=timeout,
            producer_id=producer,
            producer_epoch=epoch,
        )

    made = step(
        f"InitProducerId {spoken.words} timeout {timeout}", draw.version("InitProducerId"), build, waits=True
    )
    return [replace(made, remember=_learn(spoken)), *_settled(spoken.transactional_id)]


def add_partitions(draw: Draw) -> FuzzStep:
    spoken = _speaker(draw)
    version = draw.version("AddPartitionsToTxn")
    verifies = draw.often(0.4)
    named = [(draw.topic(), [draw.partition() for _ in range(draw.mostly(1, 2, 0))])]
    if draw.often(0.2):
        named.append((draw.topic(), [draw.partition()]))

    def build(world: World) -> Message:
        producer, epoch = spoken.identity(world)
        request = AddPartitionsToTxnRequest
        # A name that comes twice is one topic: Kafka's request is a set.
        merged: dict[str, dict[int, None]] = {}
        for name, partitions in named:
            merged.setdefault(name, {}).update(dict.fromkeys(partitions))
        topics = [
            request.AddPartitionsToTxnTopic(name=name, partitions=list(partitions))
            for name, partitions in merged.items()
        ]
        transaction = request.AddPartitionsToTxnTransaction(
            transactional_id=spoken.transactional_id,
            producer_id=producer,
            producer_epoch=epoch,
            verify_only=verifies,
            topics=topics,
        )
        if version >= 4:
            return request(transactions=[transaction])
        return request(
            v3_and_below_transactional_id=spoken.transactional_id,
            v3_and_below_producer_id=producer,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=topics,
        )

    words = f"AddPartitionsToTxn {spoken.words} {named}{' to verify' if verifies and version >= 4 else ''}"
    return step(words, version, build, waits=True)


def add_offsets(draw: Draw) -> FuzzStep:
    spoken = _speaker(draw)
    group = draw.mostly(draw.one(*_GROUPS), "", chance=0.95)

    def build(world: World) -> Message:
        producer, epoch = spoken.identity(world)
        return AddOffsetsToTxnRequest(
            transactional_id=spoken.transactional_id,
            producer_id=producer,
            producer_epoch=epoch,
            group_id=group,
        )

    words = f"AddOffsetsToTxn {spoken.words} group {group!r}"
    return step(words, draw.version("AddOffsetsToTxn"), build, waits=True)


def commit_offsets(draw: Draw) -> FuzzStep:
    spoken = _speaker(draw)
    group = draw.mostly(draw.one(*_GROUPS), "", chance=0.95)
    generation, member = draw.mostly((-1, ""), (0, ""), (3, "nobody"), (-1, "nobody"), (1, ""), chance=0.85)
    topic, partition = draw.topic(), draw.partition()
    offset = draw.mostly(draw.randint(0, 9), -1, -2, 2**62, chance=0.9)
    metadata = draw.mostly("", None, "m", "m" * 5000, chance=0.8)

    def build(world: World) -> Message:
        producer, epoch = spoken.identity(world)
        request = TxnOffsetCommitRequest
        committed = request.TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=metadata
        )
        return request(
            transactional_id=spoken.transactional_id,
            group_id=group,
            producer_id=producer,
            producer_epoch=epoch,
            generation_id=generation,
            member_id=member,
            topics=[request.TxnOffsetCommitRequestTopic(name=topic, partitions=[committed])],
        )

    member_words = f"group {group!r} of {member!r} in {generation}"
    words = f"TxnOffsetCommit {spoken.words} {member_words}: {topic}/{partition} {offset}"
    return step(words, draw.mostly(5, *range(5), chance=0.5), build, waits=True)


def end(draw: Draw) -> list[FuzzStep]:
    spoken = _speaker(draw)
    commits = draw.often(0.6)

    def build(world: World) -> Message:
        producer, epoch = spoken.identity(world)
        return EndTxnRequest(
            transactional_id=spoken.transactional_id,
            producer_id=producer,
            producer_epoch=epoch,
            committed=commits,
        )

    words = f"EndTxn {spoken.words} {'commit' if commits else 'abort'}"
    made = step(words, draw.mostly(5, *range(5), chance=0.5), build, waits=True)
    return [replace(made, remember=_learn(spoken)), *_settled(spoken.transactional_id)]


def write(draw: Draw) -> FuzzStep:
    """A batch in a transaction, or what looks like one."""
    spoken = _speaker(draw)
    topic, partition = draw.known_topic(), draw.one(0, 0, 1)
    beside = draw.mostly(0, 1, -1, 5, chance=0.85)
    count = draw.one(1, 2, 3)
    is_transactional = draw.often(0.93)
    named = draw.mostly(spoken.transactional_id, None, _IDS[1], chance=0.95)

    def key(producer: int, epoch: int) -> str:
        return f"sequence {topic}/{partition} {producer} {epoch}"

    def build(world: World) -> Message:
        producer, epoch = spoken.identity(world)
        sequence = max(world.values.get(key(producer, epoch), 0) + beside, 0)
        records: list[PlainRecord] = [
            (offset, FUTURE + offset, b"k", b"%d" % (sequence + offset), []) for offset in range(count)
        ]
        batch = encode_batch(
            records,
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=sequence if producer >= 0 else -1,
            transactional=is_transactional,
        )
        data = ProduceRequest.PartitionProduceData(index=partition, records=batch)
        written = ProduceRequest.TopicProduceData(
            name=topic, topic_id=topic_id(world, topic), partition_data=[data]
        )
        return ProduceRequest(transactional_id=named or None, acks=-1, timeout_ms=5_000, topic_data=[written])

    def remember(world: World, answer: Any) -> None:
        producer, epoch = spoken.identity(world)
        (told,) = answer.responses[0].partition_responses
        if told.error_code == 0:
            place = key(producer, epoch)
            world.values[place] = max(world.values.get(place, 0) + beside, 0) + count

    kind = "transactional" if is_transactional else "plain"
    words = (
        f"Produce {kind} {spoken.words} as {named!r} to {topic}/{partition}: {count} records, {beside} beside"
    )
    return replace(
        step(words, draw.mostly(13, *range(3, 13), chance=0.5), build, waits=True), remember=remember
    )


def whole(draw: Draw) -> list[FuzzStep]:
    """A transaction as a client makes one: from its beginning to its end."""
    steps = initialise(draw) if draw.often(0.5) else []
    for _ in range(draw.randint(1, 4)):
        kind = draw.one(add_partitions, write, write, write, add_offsets, commit_offsets, commit_offsets)
        steps.append(kind(draw))
    return [*steps, *end(draw)]


def fetch_offsets(draw: Draw) -> FuzzStep:
    group, version = draw.one(*_GROUPS), draw.one(*versions_of("OffsetFetch"))
    topic = draw.known_topic()
    wanted = draw.mostly([0, 1], [0], None if version >= 2 else [0], chance=0.6)
    is_stable = draw.often(0.5)
    request = OffsetFetchRequest

    def build(world: World) -> Message:
        if version < 8:
            named = [request.OffsetFetchRequestTopic(name=topic, partition_indexes=wanted or [])]
            return request(group_id=group, topics=None if wanted is None else named, require_stable=is_stable)
        topics = [
            request.OffsetFetchRequestTopics(
                name=topic, topic_id=topic_id(world, topic), partition_indexes=wanted or []
            )
        ]
        of_group = request.OffsetFetchRequestGroup(group_id=group, topics=None if wanted is None else topics)
        return request(groups=[of_group], require_stable=is_stable)

    words = f"OffsetFetch {group} {topic} {wanted}{' stable' if is_stable else ''}"
    return step(words, version, build, waits=version >= 10)


def describe(draw: Draw) -> FuzzStep:
    names = [draw.mostly(draw.one(*_IDS), _NONE_SUCH, "") for _ in range(draw.mostly(1, 2, 0))]
    request = DescribeTransactionsRequest(transactional_ids=list(dict.fromkeys(names)))
    return step(f"DescribeTransactions {names}", 0, lambda _world: request)


def list_all(draw: Draw) -> FuzzStep:
    """Those of this script, by their names, or before version 2 by their producers: other scripts run beside it."""
    version = draw.version("ListTransactions")
    states = draw.mostly([], ["Ongoing"], ["CompleteCommit", "CompleteAbort"], ["Empty", "None such"])
    pattern = draw.mostly(f"{PREFIX}-.*", f"{PREFIX}-x", f"{PREFIX}-(", chance=0.8)
    duration = draw.mostly(-1, 3_600_000)

    def build(world: World) -> Message:
        known = [world.values.get(f"{each} id", _UNKNOWN_PRODUCER) for each in _IDS]
        return ListTransactionsRequest(
            state_filters=states,
            producer_id_filters=known if version < 2 else [],
            duration_filter=duration,
            transactional_id_pattern=pattern,
        )

    return step(f"ListTransactions {states} {pattern} {duration}", version, build, waits=True)
