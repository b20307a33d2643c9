"""AsyncAdmin: all subjects of administration in one object, as `AsyncClient.admin` has it."""

from __future__ import annotations

from ottla.client.admin.cluster import ClusterAdmin
from ottla.client.admin.configs import ConfigsAdmin
from ottla.client.admin.group_offsets import GroupOffsetsAdmin
from ottla.client.admin.replicas import ReplicasAdmin
from ottla.client.admin.topics import TopicsAdmin
from ottla.client.admin.transactions import TransactionsAdmin


class AsyncAdmin(
    TopicsAdmin, ConfigsAdmin, GroupOffsetsAdmin, TransactionsAdmin, ReplicasAdmin, ClusterAdmin
):
    """Administers a cluster.

        async with ottla.AsyncClient("localhost:9092") as kafka:
            await kafka.admin.create_topic("orders", partitions=6)
            print(await kafka.admin.list_offsets("orders", at="earliest"))

    Every call takes `timeout`, in seconds with all its retries; default_api_timeout_ms without.
    """
