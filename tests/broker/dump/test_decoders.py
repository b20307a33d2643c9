"""What records of Kafka's own topics say; the bytes are those that the broker's coordinators and controller write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.coordinator.groups import records as groups
from ottla.broker.coordinator.transactions import records as transactions
from ottla.broker.coordinator.transactions.state import TransactionalIdState, TransactionalIdStatus
from ottla.broker.metadata.records import TopicRecord, encode
from ottla.wire import Uuid
from ottla.wire.batches import ControlType, encode_batch
from tests.broker.dump.support import Dumped, dump, dump_json
from tests.broker.log.support import NOW

TOPIC_ID = Uuid.parse("YZw7Wl4VTlGRB3Fg1lzO9A")


def dumped(
    tmp_path: Path,
    directory: str,
    *records: tuple[bytes | None, bytes | None],
    options: tuple[str, ...] = (),
    control: bool = False,
) -> Dumped:
    folder = tmp_path / directory
    folder.mkdir()
    batch = encode_batch(
        [(number, NOW, key, value, []) for number, (key, value) in enumerate(records)], control=control
    )
    path = folder / "00000000000000000000.log"
    path.write_bytes(batch)
    return dump_json(path, "--print-data-log", *options)


def shown(done: Dumped) -> list[tuple[Any, Any]]:
    return [(each.get("key"), each.get("payload")) for each in done.of_kind("record")]


def test_a_committed_offset_is_decoded_by_the_name_of_its_topic(tmp_path: Path) -> None:
    key = groups.OffsetCommitKey(group="g", topic="orders", partition=3)
    value = groups.OffsetCommitValue(
        offset=42, leader_epoch=1, metadata="m", commit_timestamp=NOW, topic_id=TOPIC_ID
    )
    record, tombstone = groups.encode(key, value), groups.encode(key, None)
    done = dumped(tmp_path, "__consumer_offsets-3", *((each.key, each.value) for each in (record, tombstone)))
    named = {"type": "1", "data": {"group": "g", "topic": "orders", "partition": 3}}
    assert done.code == 0
    assert shown(done) == [
        (
            named,
            {
                "version": "4",
                "data": {
                    "offset": 42,
                    "leaderEpoch": 1,
                    "metadata": "m",
                    "commitTimestamp": NOW,
                    "topicId": str(TOPIC_ID),
                },
            },
        ),
        (named, None),
    ]


def test_a_tombstone_is_called_one(tmp_path: Path) -> None:
    record = groups.encode(groups.GroupMetadataKey(group="g"), None)
    dumped(tmp_path, "__consumer_offsets-0", (record.key, record.value))
    lines = dump(tmp_path / "__consumer_offsets-0", "--print-data-log").lines
    assert lines[-1].endswith('key: {"type":"2","data":{"group":"g"}} payload: <DELETE>')


def test_members_of_a_classic_group_are_decoded_down_to_their_topics(tmp_path: Path) -> None:
    subscription = b"\x00\x00" + b"\x00\x00\x00\x01\x00\x06orders" + b"\x00\x00\x00\x00"
    assignment = (
        b"\x00\x00" + b"\x00\x00\x00\x01\x00\x06orders\x00\x00\x00\x01\x00\x00\x00\x02" + b"\xff\xff\xff\xff"
    )
    member = groups.MemberMetadata(member_id="m", subscription=subscription, assignment=assignment)
    value = groups.GroupMetadataValue(protocol_type="consumer", generation=1, members=[member])
    record = groups.encode(groups.GroupMetadataKey(group="g"), value)
    ((_, payload),) = shown(dumped(tmp_path, "__consumer_offsets-0", (record.key, record.value)))
    (found,) = payload["data"]["members"]
    assert found["subscription"] == {"topics": ["orders"], "userData": ""}
    assert found["assignment"] == {
        "assignedPartitions": [{"topic": "orders", "partitions": [2]}],
        "userData": None,
    }


def test_a_transactional_id_is_decoded(tmp_path: Path) -> None:
    state = TransactionalIdState(
        producer_id=9,
        epoch=2,
        timeout_ms=60_000,
        status=TransactionalIdStatus.ONGOING,
        partitions=(("orders", 0), ("orders", 1)),
        started_ms=NOW,
        updated_ms=NOW + 1,
    )
    record = transactions.encode("billing", state, transaction_version=2)
    ((key, payload),) = shown(dumped(tmp_path, "__transaction_state-1", (record.key, record.value)))
    assert key == {"type": "0", "data": {"transactionalId": "billing"}}
    assert payload["version"] == "1"
    assert payload["data"]["transactionPartitions"] == [{"topic": "orders", "partitionIds": [0, 1]}]
    assert payload["data"]["transactionStatus"] == TransactionalIdStatus.ONGOING


def test_metadata_records_of_both_controllers_are_decoded(tmp_path: Path) -> None:
    kraft = b"\x01\x02\x00\x07orders" + TOPIC_ID + b"\x00"
    own = encode(TopicRecord("orders", TOPIC_ID))
    done = dumped(tmp_path, "__cluster_metadata-0", (None, kraft), (None, own))
    assert done.code == 0
    assert [payload for _, payload in shown(done)] == [
        {"type": "TOPIC_RECORD", "version": 0, "data": {"name": "orders", "topicId": str(TOPIC_ID)}},
        {"type": "Topic", "version": 0, "data": {"name": "orders", "topic_id": str(TOPIC_ID)}},
    ]


def test_an_option_chooses_the_decoder_whatever_the_directory_is_called(tmp_path: Path) -> None:
    record = groups.encode(groups.GroupMetadataKey(group="g"), None)
    done = dumped(tmp_path, "copy-0", (record.key, None), options=("--offsets-decoder",))
    assert shown(done) == [({"type": "2", "data": {"group": "g"}}, None)]


@pytest.mark.parametrize(
    ("directory", "key", "value", "said"),
    [
        ("__consumer_offsets-0", None, b"value", "a key of no bytes"),
        ("__consumer_offsets-0", b"\x00", b"value", "a key of 1 bytes"),
        ("__consumer_offsets-0", b"\x03\xe7", b"value", "unknown type 999"),
        ("__consumer_offsets-0", b"\x00\x02\x00\x01g", b"\x00\x63", "unknown version 99"),
        ("__consumer_offsets-0", b"\x00\x02\x00\x09g", b"\x00\x00", "GroupMetadataKey"),
        ("__transaction_state-0", b"\x00\x05", None, "unknown type 5"),
        ("__share_group_state-0", b"\x00\x07", None, "unknown type 7"),
        ("__cluster_metadata-0", None, None, "0 bytes"),
        ("__cluster_metadata-0", None, b"\x09\x00\x00", "unknown frame 9"),
        ("__cluster_metadata-0", None, b"\x01\x63\x00", "unknown type 99"),
        ("__cluster_metadata-0", None, b'{"type":"Topik"}', "not a metadata record"),
        ("__cluster_metadata-0", None, b'{"type":' + b"[" * 5000, "not a metadata record"),
    ],
)
def test_what_cannot_be_decoded_is_shown_as_it_is_with_the_reason(
    tmp_path: Path, directory: str, key: bytes | None, value: bytes | None, said: str
) -> None:
    done = dumped(tmp_path, directory, (key, value))
    assert done.code == 1
    (record,) = done.of_kind("record")
    assert said in record["undecoded"]
    assert {"key", "key_base64"} & set(record)


@pytest.mark.parametrize(
    ("type_", "value", "said"),
    [
        (ControlType.LEADER_CHANGE, "0000 00000001 02 00000001 00 01 00", "LeaderChange"),
        (ControlType.SNAPSHOT_HEADER, "0000 0000000000000007 00", "SnapshotHeader"),
        (ControlType.SNAPSHOT_FOOTER, "0000 00", "SnapshotFooter"),
        (ControlType.KRAFT_VERSION, "0000 0001 00", "KRaftVersion"),
        (ControlType.KRAFT_VOTERS, "0000 01 00", "KRaftVoters"),
    ],
)
def test_control_records_of_the_quorum_are_decoded(
    tmp_path: Path, type_: ControlType, value: str, said: str
) -> None:
    key = bytes([0, 0, 0, type_])
    done = dumped(tmp_path, "__cluster_metadata-0", (key, bytes.fromhex(value)), control=True)
    assert done.code == 0
    (record,) = done.of_kind("record")
    assert record[said]["version"] == 0
    assert (
        json.dumps(record[said], separators=(",", ":"))
        in dump(tmp_path / "__cluster_metadata-0", "--deep-iteration").lines[-1]
    )


def test_a_control_record_of_another_type_is_shown_by_its_number(tmp_path: Path) -> None:
    done = dumped(tmp_path, "orders-0", (bytes([0, 0, 0, 77]), b""), control=True)
    assert (done.code, done.of_kind("record")[0]["controlType"]) == (0, 77)


@pytest.mark.parametrize("key", [None, b"\x00"])
def test_a_control_record_that_does_not_say_its_type_is_named(tmp_path: Path, key: bytes | None) -> None:
    assert dumped(tmp_path, "orders-0", (key, b""), control=True).code == 1
