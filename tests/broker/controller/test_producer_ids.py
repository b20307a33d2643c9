from ottla.broker.metadata.records import ProducerIdsRecord
from ottla.wire.messages import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from tests.broker.controller.support import Controller

UNKNOWN_SERVER_ERROR = -1
STALE_BROKER_EPOCH = 77


def allocate(controller: Controller, broker_id: int, broker_epoch: int) -> AllocateProducerIdsResponse:
    request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=broker_epoch)
    return controller.carry_out(controller.state.allocate_producer_ids(request))


def test_no_two_blocks_overlap() -> None:
    controller = Controller([1, 2])
    starts = []
    for broker_id in (1, 2, 1):
        answer = allocate(controller, broker_id, controller.epoch(broker_id))
        assert (answer.error_code, answer.producer_id_len) == (0, 1000)
        starts.append(answer.producer_id_start)
    assert starts == [0, 1000, 2000]
    assert controller.log[-1] == ProducerIdsRecord(1, controller.epoch(1), 3000)


def test_an_old_incarnation_gets_none() -> None:
    controller = Controller([1])
    assert allocate(controller, 1, 99).error_code == STALE_BROKER_EPOCH
    assert allocate(controller, 7, 0).error_code == STALE_BROKER_EPOCH
    assert controller.state.image.next_producer_id == 0


def test_ids_end_with_64_bits() -> None:
    controller = Controller([1])
    controller.commit([ProducerIdsRecord(1, 0, 2**63 - 1000)])
    assert allocate(controller, 1, controller.epoch(1)).error_code == UNKNOWN_SERVER_ERROR
