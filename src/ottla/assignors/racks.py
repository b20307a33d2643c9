"""When racks count in an assignment (KIP-881), and which member is on a rack of which partition.

Racks count only if a member is on the rack of some replica, and not all partitions have replicas on the same racks:
else every member is as near to one partition as to another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.assignors.subscription import MemberSubscription, Partition


def racks_matter(
    members: Iterable[MemberSubscription], partition_racks: Mapping[Partition, frozenset[str]]
) -> bool:
    member_racks = {member.rack for member in members if member.rack}
    replica_racks = frozenset[str]().union(*partition_racks.values())
    if member_racks.isdisjoint(replica_racks):
        return False
    return any(racks != replica_racks for racks in partition_racks.values())


class RackView:
    """The racks of members and partitions, where they count; otherwise it has none and nothing mismatches."""

    def __init__(
        self, members: Iterable[MemberSubscription], partition_racks: Mapping[Partition, frozenset[str]]
    ) -> None:
        members = list(members)
        self.active = racks_matter(members, partition_racks)
        self.of_member: dict[str, str] = {}
        self.of_partition: Mapping[Partition, frozenset[str]] = {}
        self._members_on: dict[str, int] = {}
        if not self.active:
            return
        self.of_partition = partition_racks
        for member in members:
            if member.rack:
                self.of_member[member.member_id] = member.rack
                self._members_on[member.rack] = self._members_on.get(member.rack, 0) + 1

    def mismatch(self, member_id: str, partition: Partition) -> bool:
        """Whether the member is on a rack that has no replica of the partition. A member without a rack never is."""
        rack = self.of_member.get(member_id)
        return rack is not None and rack not in self.of_partition[partition]

    def members_near(self, partition: Partition) -> int:
        """How many members are on racks of the partition."""
        return sum(self._members_on.get(rack, 0) for rack in self.of_partition[partition])
