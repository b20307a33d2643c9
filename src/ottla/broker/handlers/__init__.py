"""The APIs of a broker, one file each: a header on behaviour and versions, one registration, the handler.

Importing this package imports every file, and each registers its handlers in `BROKER_APIS`; ApiVersions is derived
from it. A handler takes the context of its node, the request and the call, and returns the response, or, where it has
to wait, something that can be awaited.
"""

from __future__ import annotations

from ottla.broker.handlers import (  # noqa: F401
    acls,
    api_00_produce,
    api_01_fetch,
    api_02_list_offsets,
    api_03_metadata,
    api_08_offset_commit,
    api_09_offset_fetch,
    api_10_find_coordinator,
    api_11_join_group,
    api_12_heartbeat,
    api_13_leave_group,
    api_14_sync_group,
    api_15_describe_groups,
    api_16_list_groups,
    api_18_api_versions,
    api_21_delete_records,
    api_22_init_producer_id,
    api_23_offset_for_leader_epoch,
    api_24_add_partitions_to_txn,
    api_25_add_offsets_to_txn,
    api_26_end_txn,
    api_27_write_txn_markers,
    api_28_txn_offset_commit,
    api_32_describe_configs,
    api_33_alter_configs,
    api_34_alter_replica_log_dirs,
    api_35_describe_log_dirs,
    api_42_delete_groups,
    api_44_incremental_alter_configs,
    api_47_offset_delete,
    api_60_describe_cluster,
    api_61_describe_producers,
    api_65_describe_transactions,
    api_66_list_transactions,
    api_68_consumer_group_heartbeat,
    api_69_consumer_group_describe,
    api_71_get_telemetry_subscriptions,
    api_72_push_telemetry,
    api_75_describe_topic_partitions,
    forwarded,
)
from ottla.broker.server.registry import BROKER_APIS

__all__ = ["BROKER_APIS"]
