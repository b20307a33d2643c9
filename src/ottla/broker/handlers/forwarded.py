"""What only the controller decides: a broker passes it on and passes the response back (KIP-590).

CreateTopics, DeleteTopics, CreatePartitions, ElectLeaders, UpdateFeatures and the two of partition reassignments.
They share one handler, because a broker does nothing with them but say for which principal they are; the controller's
side is controller/handlers.py. A controller that cannot be reached is REQUEST_TIMED_OUT.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.server.refusals import (
    refuse_alter_reassignments,
    refuse_create_partitions,
    refuse_create_topics,
    refuse_delete_topics,
    refuse_elect_leaders,
)
from ottla.broker.server.registry import handles
from ottla.wire import Message
from ottla.wire.messages import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    UpdateFeaturesRequest,
)

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import Call


@handles(CreateTopicsRequest, versions=range(2, 8), refuse=refuse_create_topics)
@handles(DeleteTopicsRequest, versions=range(1, 7), refuse=refuse_delete_topics)
@handles(CreatePartitionsRequest, versions=range(4), refuse=refuse_create_partitions)
@handles(ElectLeadersRequest, versions=range(3), refuse=refuse_elect_leaders)
@handles(AlterPartitionReassignmentsRequest, versions=range(2), refuse=refuse_alter_reassignments)
@handles(ListPartitionReassignmentsRequest, versions=range(1))
@handles(UpdateFeaturesRequest, versions=range(3))
async def forward(node: NodeContext, request: Message, call: Call) -> Message:
    return await node.controller.forward(request, call)
