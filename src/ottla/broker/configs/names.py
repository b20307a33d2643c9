"""The names in requests: which a resource may have, and the order in which Kafka comes across those of configs.

The error messages for names that no resource has are Kafka's. The order is that of a Java hash table. A response has
one mistake, the first that Kafka meets, or lists names in the order in which it meets them. Both follow from the
hashes of the names, so they are the same every time: clients show them, and tests compare them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from ottla.broker.metadata.names import why_invalid
from ottla.errors import InvalidRequestError, InvalidTopicError
from ottla.wire.resources import ConfigResourceType

_INTEGER: Final = re.compile(r"[+-]?0*[0-9]{1,10}")
_TWO_TO_31: Final = 1 << 31
_BUCKETS: Final = 16
"""Of a table that holds little; it doubles as often as it gets three quarters full."""


def node_id_of(name: str) -> int | None:
    """The node that a resource's name means; None where it is no number of 32 bits."""
    number = int(name) if _INTEGER.fullmatch(name) else None
    return number if number is not None and -_TWO_TO_31 <= number < _TWO_TO_31 else None


def check_topic_name(name: str) -> None:
    reason = why_invalid(name)
    if reason is not None:
        raise InvalidTopicError(reason)


def check_name(kind: int, name: str) -> None:
    """Raises the error of the controller for a name that no resource of this kind can have."""
    match kind:
        case ConfigResourceType.TOPIC:
            if not name:
                raise InvalidRequestError("Default topic resources are not allowed.")
            check_topic_name(name)
        case ConfigResourceType.BROKER:
            _check_broker_name(name)
        case ConfigResourceType.CLIENT_METRICS:
            if not name:
                raise InvalidRequestError("Subscription name can't be empty")
        case ConfigResourceType.GROUP:
            if not name:
                raise InvalidRequestError("Default group resources are not allowed.")
        case _:
            raise InvalidRequestError(f"Unknown resource type {kind}")


def check_is_node(name: str, node_id: int, otherwise: str, *, subject: str = "Node") -> None:
    """A broker describes and alters only itself: it alone knows whether it could live with a change.

    `otherwise` is the error message for another broker; Kafka has one for each request.
    """
    named = node_id_of(name)
    if named is None:
        raise InvalidRequestError(f"{subject} id must be an integer, but it is: {name}")
    if named != node_id:
        raise InvalidRequestError(otherwise)


def _check_broker_name(name: str) -> None:
    if not name:
        return  # the defaults of all brokers
    node_id = node_id_of(name)
    if node_id is None:
        raise InvalidRequestError("Unable to parse broker name as a base 10 number.")
    if node_id < 0:
        raise InvalidRequestError("Invalid negative broker ID.")


def hash_order(names: Iterable[str]) -> list[str]:
    """The names as a java.util.HashMap that got them in this order gives them back.

    >>> hash_order(["metrics", "interval.ms"])
    ['interval.ms', 'metrics']
    """
    distinct = list(dict.fromkeys(names))
    buckets = _BUCKETS
    while len(distinct) > buckets * 3 // 4:
        buckets *= 2
    # Names that share a bucket stay in the order in which they came.
    return sorted(distinct, key=lambda name: _spread(name) & (buckets - 1))


def _spread(name: str) -> int:
    """String.hashCode, its upper half mixed into the lower one, which alone picks the bucket."""
    code = 0
    units = name.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        code = (31 * code + (units[position] << 8 | units[position + 1])) & 0xFFFFFFFF
    return code ^ code >> 16
