"""Which member of a group gets which partition.

The leader of a classic group computes it in the client (`ASSIGNORS`), the coordinator of a KIP-848 group in the
broker (`TARGET_ASSIGNORS`). Pure: members and topics in, an assignment out, the same for the same input whatever its
order. The bytes that classic members exchange are in `protocol`.

>>> members = [MemberSubscription("a", ("orders",)), MemberSubscription("b", ("orders",))]
>>> ASSIGNORS["range"].assign(members, {"orders": TopicLayout(3)})
{'a': [('orders', 0), ('orders', 1)], 'b': [('orders', 2)]}
"""

from ottla.assignors.registry import ASSIGNORS, TARGET_ASSIGNORS, Assignor, TargetAssignor
from ottla.assignors.subscription import Assignment, MemberSubscription, Partition, TopicLayout
from ottla.assignors.target import Target, TargetMember

__all__ = [
    "ASSIGNORS",
    "TARGET_ASSIGNORS",
    "Assignment",
    "Assignor",
    "MemberSubscription",
    "Partition",
    "Target",
    "TargetAssignor",
    "TargetMember",
    "TopicLayout",
]
