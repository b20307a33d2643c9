"""A transaction coordinator that says what a test wants, in the place of the one that a leader would ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.broker.cluster.node import Node
from ottla.broker.coordinator.internal_topics import TRANSACTIONS_TOPIC
from ottla.broker.coordinator.partition_adds import PartitionAdds
from ottla.broker.metadata.image import MetadataImage, PartitionImage, TopicImage
from ottla.wire import Message, Uuid
from ottla.wire.messages import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

Question = tuple[str, int, int, bool, list[tuple[str, int]]]
"""Transactional id, producer id, epoch, whether it is only verified, partitions."""

COORDINATOR = 7


class ScriptedCoordinator:
    """Gives its codes one after the other, the last one again and again; 0 without any."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes) or [0]
        self.top_code = 0
        self.asked: list[Question] = []
        self.versions: list[int] = []
        self.failure: Exception | None = None
        self.before_answer: Callable[[], object] = lambda: None
        """What happens while the question is under way."""

    async def request(self, leader: int, request: Message, version: int, timeout: float) -> Message:
        assert leader == COORDINATOR
        assert isinstance(request, AddPartitionsToTxnRequest)
        (transaction,) = request.transactions
        partitions = [(topic.name, index) for topic in transaction.topics for index in topic.partitions]
        self.asked.append(
            (
                transaction.transactional_id,
                transaction.producer_id,
                transaction.producer_epoch,
                transaction.verify_only,
                partitions,
            )
        )
        self.versions.append(version)
        self.before_answer()
        if self.failure is not None:
            raise self.failure
        code = self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]
        return _response(transaction.transactional_id, partitions, code, self.top_code)

    def hurry(self, leader: int) -> None:
        raise AssertionError("only replication hurries")

    def image(self, *, has_leader: bool = True) -> MetadataImage:
        """A cluster in which this is the coordinator of every id."""
        image = MetadataImage()
        leader = COORDINATOR if has_leader else -1
        led = PartitionImage((COORDINATOR,), (COORDINATOR,), leader, 0, 0)
        image.topics[TRANSACTIONS_TOPIC] = TopicImage(TRANSACTIONS_TOPIC, Uuid(b"t" * 16), {0: led})
        return image

    def adds_of(self, node: Node, image: MetadataImage | None = None) -> PartitionAdds:
        return PartitionAdds(
            self.image() if image is None else image,
            node.configs,
            node.replicas,
            self,
            node.runtime.clock,
        )

    def install(self, nodes: Iterable[Node]) -> None:
        """From here on these nodes ask this coordinator."""
        for node in nodes:
            node.context.partition_adds = self.adds_of(node)


def _response(
    transactional_id: str, partitions: list[tuple[str, int]], code: int, top_code: int
) -> AddPartitionsToTxnResponse:
    topics = [
        AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult(
            name=name,
            results_by_partition=[
                AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=code
                )
            ],
        )
        for name, index in partitions
    ]
    result = AddPartitionsToTxnResponse.AddPartitionsToTxnResult(
        transactional_id=transactional_id, topic_results=topics
    )
    return AddPartitionsToTxnResponse(error_code=top_code, results_by_transaction=[result])
