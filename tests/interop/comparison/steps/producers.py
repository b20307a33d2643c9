"""InitProducerId, the sequences of idempotent producers, and DescribeProducers."""

from __future__ import annotations

from collections.abc import Callable

from ottla.wire.messages import DescribeProducersRequest, InitProducerIdRequest
from tests.interop.comparison.requests import batch, fetch, given, just, list_offsets, produce
from tests.interop.comparison.script import Build, Step, ask, remembering, section
from tests.interop.comparison.world import World

TOPIC = "idempotent-a"
INVENTED = 5_000_000
LOADING = 14


def initialise(
    transactional_id: str | None = None, timeout: int = 60_000, producer: int = -1, epoch: int = -1
) -> Build:
    return just(
        InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout,
            producer_id=producer,
            producer_epoch=epoch,
        )
    )


def describe(*topics: tuple[str, list[int]]) -> Build:
    wanted = [
        DescribeProducersRequest.TopicRequest(name=name, partition_indexes=indexes)
        for name, indexes in topics
    ]
    return just(DescribeProducersRequest(topics=wanted))


def numbered(
    sequence: int, *values: bytes, producer: str | int = "first", epoch: int = 0
) -> Callable[[World], bytes]:
    """A batch of an idempotent producer."""

    def records(world: World) -> bytes:
        producer_id = producer if isinstance(producer, int) else world.values.get(producer, -1)
        return batch(
            *(values or (b"value",)),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )

    return records


def send(label: str, records: Callable[[World], bytes], *versions: int, topic: str = TOPIC) -> list[Step]:
    return ask(label, produce(topic, records), *(versions or (9,)))


IDS = section(
    "init producer id",
    # A broker asks the controller for ids when it is first asked itself.
    ask("the first of all", initialise(), 4, until=lambda answer: answer.error_code != LOADING),
    ask("a new one", initialise(), *range(6)),
    ask("a new one without a timeout", initialise(timeout=0), 4),
    ask("an empty transactional id", initialise(""), 0, 4),
    ask("a producer without an epoch", initialise(producer=INVENTED), 3, 5),
    ask("an epoch without a producer", initialise(epoch=3), 3, 5),
    ask("an invented producer", initialise(producer=INVENTED, epoch=3), 3, 5),
)

SEQUENCES = section(
    "idempotence",
    given(TOPIC, "idempotent-b"),
    ask("the first producer", initialise(), 4, remember=remembering("first", "producer_id")),
    ask("the second producer", initialise(), 4, remember=remembering("second", "producer_id")),
    send("sequence 0", numbered(0), 3),
    send("sequence 0 again", numbered(0), 3, 9, 13),
    send("sequences 1 to 3", numbered(1, b"a", b"b", b"c")),
    send("sequences 1 to 3 again", numbered(1, b"a", b"b", b"c"), 9, 13),
    send("sequences 1 to 2", numbered(1, b"a", b"b"), 9),
    send("sequence 9 too early", numbered(9), 3, 9, 13),
    *(send(f"sequence {number}", numbered(number)) for number in range(4, 10)),
    send("sequence 0 after more than five batches", numbered(0), 9, 13),
    send("sequence 5, the oldest of the last five", numbered(5), 9),
    send("sequence 9, the latest", numbered(9), 9),
    send("epoch 1 with sequence 10", numbered(10, epoch=1), 9, 13),
    send("epoch 1 with sequence 0", numbered(0, epoch=1), 9),
    send("epoch 0 after epoch 1", numbered(10), 3, 9, 13),
    send("the second producer with sequence 5", numbered(5, producer="second"), 9),
    send("an invented producer with sequence 0", numbered(0, producer=INVENTED), 9),
    send("an invented producer with sequence 7", numbered(7, producer=INVENTED + 1), 9),
    send("a producer without a sequence", numbered(-1, producer="second"), 9),
    send("a producer with a negative epoch", numbered(0, producer="second", epoch=-1), 9),
    send("up to the last sequence", numbered(2**31 - 1, producer=INVENTED + 2), 9),
    send("around the last sequence", numbered(0, producer=INVENTED + 2), 9),
    ask("what was appended", fetch(TOPIC), 12),
    ask("where it ends", list_offsets(TOPIC, -1), 7),
)

DESCRIBED = section(
    "describe producers",
    ask("of one partition", describe((TOPIC, [0])), 0),
    ask("of an empty partition", describe(("idempotent-b", [0])), 0),
    ask("of an unknown partition", describe((TOPIC, [0, 9])), 0),
    ask("of an unknown topic", describe(("idempotent-none", [0])), 0),
    ask("of an empty name", describe(("", [0])), 0),
    ask("of two topics", describe((TOPIC, [0]), ("idempotent-b", [0])), 0),
    ask("of no partitions", describe((TOPIC, [])), 0),
    ask("of nothing", describe(), 0),
)
