"""For each API: the broker it goes to, what its items are, and which error codes are worth another try.

Controllers are not spoken to: brokers forward what only a controller decides (KIP-590), and an older cluster's
controller is the broker that metadata names. An API that is not in the table goes to any broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ottla.client.requests.sharding.items import CommittedOffsets, Items, Listed, Nested, WholeRequest
from ottla.errors import (
    ERRORS,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NetworkError,
    NotControllerError,
    NotCoordinatorError,
    RequestTimedOutError,
    ThrottlingQuotaExceededError,
    UnknownTopicOrPartitionError,
)
from ottla.wire import Message, api_key


class Destination(Enum):
    """The broker or brokers that a request goes to."""

    ANY = "any broker"
    CONTROLLER = "the controller"
    LEADER = "the leader of each partition"
    GROUP = "the coordinator of each group"
    TRANSACTION = "the coordinator of each transactional id"
    RESOURCE = "the broker that a config belongs to, or any"
    EVERY = "every broker"
    NAMED = "the broker that the caller names"


_COORDINATOR_ERRORS: Final = frozenset(
    error.code
    for error in (CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError)
)
_TRANSIENT_ERRORS: Final = _COORDINATOR_ERRORS | {
    error.code
    for error in (RequestTimedOutError, NetworkError, NotControllerError, ThrottlingQuotaExceededError)
}
"""Not every code that Kafka calls retriable: a topic to be deleted that is unknown is a result, not a hiccup."""

_LEADER_ERRORS: Final = frozenset(code for code, error in ERRORS.items() if error.retriable)

_RETRIED: Final = {
    Destination.LEADER: _LEADER_ERRORS,
    # The broker that gets the request may not have heard yet of a topic that has just been created.
    Destination.RESOURCE: _TRANSIENT_ERRORS | {UnknownTopicOrPartitionError.code},
    Destination.GROUP: _COORDINATOR_ERRORS,
    Destination.TRANSACTION: _COORDINATOR_ERRORS,
}


@dataclass(frozen=True)
class Route:
    """The way of one API."""

    destination: Destination
    items: Items

    def is_retried(self, code: int) -> bool:
        return code in _RETRIED.get(self.destination, _TRANSIENT_ERRORS)


def route_of(request: Message) -> Route:
    """The way of this request."""
    route = _ROUTES.get(request.API_KEY, _ANYWHERE)
    if route.destination is Destination.TRANSACTION and route.items.keys(request) == [None]:
        return _ANYWHERE  # InitProducerId without a transactional id
    if not route.items.keys(request):
        # Nothing is named: any broker can say what it says to that. CreateTopics without topics, for one.
        return Route(_UNNAMED.get(route.destination, route.destination), WholeRequest())
    return route


_ANYWHERE: Final = Route(Destination.ANY, WholeRequest())

_UNNAMED: Final = {
    Destination.LEADER: Destination.ANY,
    Destination.GROUP: Destination.ANY,
    Destination.TRANSACTION: Destination.ANY,
    Destination.RESOURCE: Destination.ANY,
}


def _routes() -> Mapping[int, Route]:
    by_api: dict[str, Route] = {}

    def add(destination: Destination, items: Items, *apis: str) -> None:
        by_api.update((api, Route(destination, items)) for api in apis)

    partitions = Nested("name", "partitions", "partition_index", "partition_index")
    add(Destination.LEADER, partitions, "ListOffsets", "DeleteRecords")
    add(
        Destination.LEADER,
        Nested("topic", "partitions", "partition", "partition"),
        "OffsetForLeaderEpoch",
    )
    add(
        Destination.LEADER,
        Nested("name", "partition_indexes", None, "partition_index"),
        "DescribeProducers",
    )

    name = ("name",)
    add(Destination.CONTROLLER, Listed("topics", "topics", name, name), "CreateTopics")
    add(Destination.CONTROLLER, Listed("topics", "responses", name, name), "DeleteTopics")
    add(Destination.CONTROLLER, Listed("topics", "results", name, name), "CreatePartitions")
    add(Destination.CONTROLLER, WholeRequest(), *_FOR_THE_CONTROLLER)

    resource = ("resource_type", "resource_name")
    add(Destination.RESOURCE, Listed("resources", "results", resource, resource), "DescribeConfigs")
    add(
        Destination.RESOURCE,
        Listed("resources", "responses", resource, resource),
        "AlterConfigs",
        "IncrementalAlterConfigs",
    )

    group = ("group_id",)
    add(Destination.GROUP, WholeRequest("group_id"), *_FOR_ONE_GROUP)
    add(
        Destination.GROUP,
        CommittedOffsets("group_id", _COORDINATOR_ERRORS),
        "OffsetCommit",
        "TxnOffsetCommit",
    )
    add(
        Destination.GROUP,
        Listed("groups", "groups", group, group),
        "OffsetFetch",
        "DescribeShareGroupOffsets",
    )
    add(Destination.GROUP, Listed("groups", "groups", (), group), "DescribeGroups")
    add(Destination.GROUP, Listed("groups_names", "results", (), group), "DeleteGroups")
    add(
        Destination.GROUP,
        Listed("group_ids", "groups", (), group),
        "ConsumerGroupDescribe",
        "ShareGroupDescribe",
        "StreamsGroupDescribe",
    )

    add(
        Destination.TRANSACTION,
        WholeRequest("transactional_id"),
        "InitProducerId",
        "AddOffsetsToTxn",
        "EndTxn",
    )
    add(Destination.TRANSACTION, WholeRequest("v3_and_below_transactional_id"), "AddPartitionsToTxn")
    add(
        Destination.TRANSACTION,
        Listed("transactional_ids", "transaction_states", (), ("transactional_id",)),
        "DescribeTransactions",
    )

    add(Destination.ANY, Listed("coordinator_keys", "coordinators", (), ("key",)), "FindCoordinator")
    add(Destination.EVERY, WholeRequest(), "ListGroups", "DescribeLogDirs", "ListTransactions")
    add(Destination.NAMED, WholeRequest(), *_FOR_A_NAMED_BROKER)
    return {api_key(api): route for api, route in by_api.items()}


_FOR_THE_CONTROLLER: Final = (
    "CreateAcls",
    "DeleteAcls",
    "CreateDelegationToken",
    "RenewDelegationToken",
    "ExpireDelegationToken",
    "ElectLeaders",
    "AlterPartitionReassignments",
    "ListPartitionReassignments",
    "AlterClientQuotas",
    "DescribeUserScramCredentials",
    "AlterUserScramCredentials",
    "DescribeQuorum",
    "UpdateFeatures",
    "UnregisterBroker",
    "AddRaftVoter",
    "RemoveRaftVoter",
)
_FOR_ONE_GROUP: Final = (
    "JoinGroup",
    "Heartbeat",
    "LeaveGroup",
    "SyncGroup",
    "OffsetDelete",
    "ConsumerGroupHeartbeat",
    "ShareGroupHeartbeat",
    "StreamsGroupHeartbeat",
    "AlterShareGroupOffsets",
    "DeleteShareGroupOffsets",
)
_FOR_A_NAMED_BROKER: Final = (
    # Their responses cannot be merged, or a second try does something else than the first.
    "Produce",
    "Fetch",
    "ShareFetch",
    "ShareAcknowledge",
    "AlterReplicaLogDirs",
    # What brokers and controllers say to one another.
    "WriteTxnMarkers",
    "Vote",
    "BeginQuorumEpoch",
    "EndQuorumEpoch",
    "AlterPartition",
    "Envelope",
    "FetchSnapshot",
    "BrokerRegistration",
    "BrokerHeartbeat",
    "AllocateProducerIds",
    "ControllerRegistration",
    "AssignReplicasToDirs",
    "UpdateRaftVoter",
    "InitializeShareGroupState",
    "ReadShareGroupState",
    "WriteShareGroupState",
    "DeleteShareGroupState",
    "ReadShareGroupStateSummary",
)

_ROUTES: Final = _routes()
