"""Metadata: which brokers and topics there are, and who leads what; view.py is what others see of it."""

from ottla.client.metadata.loop import Metadata
from ottla.client.metadata.tracked import check_name
from ottla.client.metadata.view import (
    BrokerView,
    ClusterView,
    MetadataListener,
    PartitionView,
    TopicView,
)

__all__ = [
    "BrokerView",
    "ClusterView",
    "Metadata",
    "MetadataListener",
    "PartitionView",
    "TopicView",
    "check_name",
]
