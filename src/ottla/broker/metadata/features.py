"""The features of the cluster (KIP-584): what this version of Ottla can run at.

Only what is true is claimed: the features of transactions and share groups come with their APIs. Which level
a cluster does run at is in the metadata image; a new one begins with the highest of each.
"""

from __future__ import annotations

from typing import Final

from ottla.broker.metadata.records import SupportedFeature

METADATA_VERSION: Final = SupportedFeature("metadata.version", 7, 30)
"""3.3-IV3 to 4.3-IV0: the levels of Apache Kafka 4.3."""

ELIGIBLE_LEADER_REPLICAS: Final = SupportedFeature("eligible.leader.replicas.version", 0, 1)
"""KIP-966: with level 1 the controller remembers which replicas outside of an ISR may lead without losing records."""

GROUP_VERSION: Final = SupportedFeature("group.version", 0, 1)
"""KIP-848: with level 1 there are groups of the consumer protocol."""

SUPPORTED: Final = (METADATA_VERSION, ELIGIBLE_LEADER_REPLICAS, GROUP_VERSION)
