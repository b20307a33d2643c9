"""Which names a topic may have, and which of them are Kafka's own.

Invariant: the error messages are Kafka's, since clients show them to people.
"""

from __future__ import annotations

import re
from typing import Final

METADATA_TOPIC: Final = "__cluster_metadata"
OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
SHARE_STATE_TOPIC: Final = "__share_group_state"

_INTERNAL: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC})
_MAX_LENGTH: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def is_internal(topic: str) -> bool:
    """A topic of Kafka's own, which Metadata marks as such."""
    return topic in _INTERNAL


def why_invalid(name: str) -> str | None:
    """Kafka's error message for a name that no topic may have; None for a good one."""
    reason = _reason(name)
    return None if reason is None else f"Topic name is invalid: {reason}"


def unified(name: str) -> str | None:
    """The form in which two names with '.' and '_' collide, as they would in the names of metrics.

    None for a name that has neither.
    """
    return name.replace(".", "_") if "." in name or "_" in name else None


def _reason(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > _MAX_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {_MAX_LENGTH}"
    if not _LEGAL.fullmatch(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None
