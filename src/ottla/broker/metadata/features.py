"""The features of the cluster (KIP-584): what this version of Ottla can run at.

Only what is true is claimed: the features of share groups come with their APIs. Which level
a cluster does run at is in the metadata image; a new one begins with the highest of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.broker.metadata.records import SupportedFeature

METADATA_VERSION: Final = SupportedFeature("metadata.version", 7, 30)
"""3.3-IV3 to 4.3-IV0: the levels of Apache Kafka 4.3."""

ELIGIBLE_LEADER_REPLICAS: Final = SupportedFeature("eligible.leader.replicas.version", 0, 1)
"""KIP-966: with level 1 the controller remembers which replicas outside of an ISR may lead without losing records."""

GROUP_VERSION: Final = SupportedFeature("group.version", 0, 1)
"""KIP-848: with level 1 there are groups of the consumer protocol."""

TRANSACTION_VERSION: Final = SupportedFeature("transaction.version", 0, 2)
"""KIP-890: with level 1 the transaction log has tagged fields; with level 2 every end of a transaction bumps the
epoch of its producer, and a partition joins a transaction with its first record."""

SUPPORTED: Final = (METADATA_VERSION, ELIGIBLE_LEADER_REPLICAS, GROUP_VERSION, TRANSACTION_VERSION)

_BUMPING_END: Final = 5


def supported(max_versions: Mapping[str, int]) -> tuple[SupportedFeature, ...]:
    """What a cluster can run at that plays an older release, by the highest versions of its APIs.

    Without the EndTxn that returns the next epoch (Kafka 4.0) there is no transaction.version.
    """
    if max_versions.get("EndTxn", _BUMPING_END) >= _BUMPING_END:
        return SUPPORTED
    return tuple(feature for feature in SUPPORTED if feature is not TRANSACTION_VERSION)


def feature_ranges(features: Iterable[SupportedFeature]) -> dict[str, tuple[int, int]]:
    """The lowest and the highest level of each."""
    return {feature.name: (feature.min_version, feature.max_version) for feature in features}
