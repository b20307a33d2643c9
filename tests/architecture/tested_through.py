"""Modules without a test file of their own name, and the file that tests each: a step in a larger subject.

One line per module, ordered by package: the path inside src/ottla, and the file that fails when the module is wrong.
"""

TESTED_THROUGH: dict[str, str] = {
    # Which member gets which partition: steps of the assignors, and the names they go by.
    "assignors/mixed.py": "tests/assignors/test_sticky.py",
    "assignors/racks.py": "tests/assignors/test_range.py",
    "assignors/registry.py": "tests/assignors/test_sticky.py",
    "assignors/subscription.py": "tests/assignors/test_range.py",
    # The compiled core: the crc and the hash have a file each, buffers and batches are tested as one.
    "_native/checksums.pyx": "tests/native/test_crc32c.py",
    "_native/counters.pyx": "tests/client/metrics/test_collect.py",
    "_native/encode.pyx": "tests/native/test_encode_columns.py",
    "_native/record_buffer.pyx": "tests/native/test_accumulator.py",
    "_native/sticky.pyx": "tests/client/partitioners/test_sticky.py",
    # The cluster.
    "broker/coordinator/groups/advance.py": "tests/broker/coordinator/groups/test_heartbeat.py",
    "broker/coordinator/groups/consumer_configs.py": "tests/broker/coordinator/groups/test_heartbeat.py",
    "broker/coordinator/groups/consumer_member.py": "tests/broker/coordinator/groups/test_reconciliation.py",
    "broker/coordinator/groups/group.py": "tests/broker/coordinator/groups/test_classic_state.py",
    "broker/coordinator/shard.py": "tests/broker/coordinator/test_runtime.py",
    "broker/log/config.py": "tests/broker/log/test_segment.py",
    "broker/metadata/features.py": "tests/broker/metadata/test_controller_channel.py",
    # The client.
    "client/context.py": "tests/client/test_core.py",
    "client/admin/async_admin.py": "tests/client/admin/test_topics.py",
    "client/admin/base.py": "tests/client/admin/test_topics.py",
    "client/consume/context.py": "tests/client/consume/test_source.py",
    "client/consume/dead_letters.py": "tests/client/consume/test_deserialized.py",
    "client/consume/offset_lookup.py": "tests/client/consume/test_consumer.py",
    "client/group/assignment.py": "tests/client/group/test_consumer.py",
    "client/group/health.py": "tests/client/group/test_consumer.py",
    "client/group/member.py": "tests/client/group/test_classic.py",
    "client/metadata/view.py": "tests/client/metadata/test_merge.py",
    "client/metrics/catalog.py": "tests/client/metrics/test_collect.py",
    "client/metrics/snapshot.py": "tests/client/metrics/test_collect.py",
    "client/partitioners/base.py": "tests/client/partitioners/test_default.py",
    "client/produce/settings.py": "tests/client/produce/test_producer.py",
    "client/requests/attempt.py": "tests/client/requests/test_coordinators.py",
    "client/requests/routing.py": "tests/client/requests/test_requests.py",
    # An option is a rule, a name and a refusal: tested as what a config accepts and says.
    "config/errors.py": "tests/config/test_client.py",
    "config/options.py": "tests/config/test_client.py",
    "config/rules.py": "tests/config/test_client.py",
    "serde/context.py": "tests/serde/test_calls.py",
    "sim/group_trial.py": "tests/sim/test_group_nemesis.py",
    "sim/group_workload.py": "tests/sim/test_group_nemesis.py",
    "sim/errors.py": "tests/sim/test_loop.py",
    "sim/fault_kinds.py": "tests/sim/test_nemesis.py",
    "sim/trial.py": "tests/sim/test_nemesis.py",
    "sim/watch.py": "tests/sim/test_planted_bugs.py",
    "sim/workload.py": "tests/sim/test_nemesis.py",
    # The compiled codecs are tested as what they make of every message, and one codec beside the next.
    "wire/apis.py": "tests/wire/test_frames.py",
    "wire/codegen.py": "tests/wire/test_messages.py",
    "wire/compression/failures.py": "tests/wire/test_compression.py",
    "wire/compression/gzip.py": "tests/wire/test_compression.py",
    "wire/compression/lz4.py": "tests/wire/test_compression.py",
    "wire/compression/snappy.py": "tests/wire/test_compression.py",
    "wire/compression/zstd.py": "tests/wire/test_compression.py",
    "wire/decoder.py": "tests/wire/test_messages.py",
    "wire/encoder.py": "tests/wire/test_messages.py",
    "wire/explain.py": "tests/wire/test_messages.py",
    "wire/message.py": "tests/wire/test_messages.py",
    "wire/runs.py": "tests/wire/test_messages.py",
}
