"""What each single node of a cluster says.

A client asks any node, and what one has heard of, the next may hear of a moment later: whoever goes on to ask a
certain node, or all of them, waits here first. A node that cannot be reached is down, and is not waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial

from ottla.wire.messages import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    MetadataRequest,
    MetadataResponse,
)
from tests.interop.plain import Connection
from tests.interop.waiting import eventually

WITHIN_S = 60.0
# Old enough for every release that the embedded cluster can stand for.
_METADATA, _LIST_OFFSETS = 9, 5
_LATEST = -1
_MARKING = ["PrepareCommit", "PrepareAbort"]


def addresses(bootstrap: str) -> dict[int, str]:
    """Of the nodes that count as alive, by their ids."""
    for address in bootstrap.split(","):
        try:
            with Connection(address) as connection:
                return listed(connection)
        except ConnectionRefusedError:
            continue
    raise ConnectionRefusedError(f"no node of {bootstrap} is up")


def listed(connection: Connection) -> dict[int, str]:
    """The nodes that this one counts as alive."""
    answer = connection.ask(MetadataRequest(topics=[]), _METADATA)
    assert isinstance(answer, MetadataResponse)
    return {broker.node_id: f"{broker.host}:{broker.port}" for broker in answer.brokers}


def partitions_of(
    connection: Connection, topic: str
) -> dict[int, MetadataResponse.MetadataResponsePartition]:
    """Of a topic, as this node knows it; none where it does not."""
    wanted = [MetadataRequest.MetadataRequestTopic(name=topic)]
    answer = connection.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), _METADATA)
    assert isinstance(answer, MetadataResponse)
    (found,) = answer.topics
    return {each.partition_index: each for each in found.partitions} if found.error_code == 0 else {}


def wait_until_each_says(
    wanted: Iterable[str], says: Callable[[Connection], bool], what: str, within: float = WITHIN_S
) -> None:
    """Until each of the nodes at these addresses says so."""
    for address in wanted:
        try:
            connection = Connection(address)
        except ConnectionRefusedError:
            continue
        with connection:
            eventually(partial(says, connection), f"{what}, as {address} knows it", within)


def wait_until_served(bootstrap: str, topic: str, partitions: int) -> None:
    """Until each node knows the topic, and the leader of each partition has become one."""
    with ExitStack() as stack:
        links: dict[int, Connection] = {}
        for node, address in addresses(bootstrap).items():
            try:
                links[node] = stack.enter_context(Connection(address))
            except ConnectionRefusedError:
                continue
        for node, link in links.items():
            knows = partial(_knows, link, topic, partitions)
            eventually(knows, f"node {node} to know the {partitions} partitions of {topic}", WITHIN_S)
        eventually(partial(_is_served, links, topic), f"leaders to serve {topic}", WITHIN_S)


def _knows(link: Connection, topic: str, partitions: int) -> bool:
    return len(partitions_of(link, topic)) == partitions


def _is_served(links: dict[int, Connection], topic: str) -> bool:
    """A node names its leaders a moment before they are ready to lead."""
    by_leader: dict[int, list[int]] = {}
    for index, part in partitions_of(next(iter(links.values())), topic).items():
        by_leader.setdefault(part.leader_id, []).append(index)
    return bool(by_leader) and all(
        leader in links and leads(links[leader], topic, indexes) for leader, indexes in by_leader.items()
    )


def leads(link: Connection, topic: str, partitions: Iterable[int]) -> bool:
    """Whether a node answers for these partitions as their leader."""
    request = ListOffsetsRequest
    wanted = [request.ListOffsetsPartition(partition_index=each, timestamp=_LATEST) for each in partitions]
    topics = [request.ListOffsetsTopic(name=topic, partitions=wanted)]
    answer = link.ask(request(replica_id=-1, topics=topics), _LIST_OFFSETS)
    assert isinstance(answer, ListOffsetsResponse)
    return all(each.error_code == 0 for each in answer.topics[0].partitions)


def wait_until_marked(bootstrap: str) -> None:
    """Until every transaction that has ended has its markers: a producer is answered before they are written."""

    def is_marked(node: Connection) -> bool:
        answer = node.ask(ListTransactionsRequest(state_filters=_MARKING, producer_id_filters=[]), 0)
        assert isinstance(answer, ListTransactionsResponse)
        return answer.error_code == 0 and not answer.transaction_states

    wait_until_each_says(
        addresses(bootstrap).values(), is_marked, "the markers of transactions to be written"
    )
