"""A cluster that keeps its files: what it had is there again when it is started again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import ottla
from ottla.broker import Cluster, TopicSpec
from ottla.broker.cluster.volumes import data_dirs
from ottla.broker.log.fs.lock import DirectoryInUseError
from ottla.broker.log.log_dir import LogDirError
from ottla.client.admin import GroupOffset, TransactionDescription


def values(cluster: Cluster, topic: str) -> list[bytes | None]:
    return [record.value for record in cluster.dump(topic)]


def test_topics_records_and_the_cluster_id_are_there_again(tmp_path: Path) -> None:
    with Cluster(topics={"orders": 2}, data_dir=tmp_path) as cluster:
        cluster_id = cluster.cluster_id
        cluster.seed("orders", [b"1", b"2"])
        cluster.seed("orders", [b"3"], partition=1)
    with Cluster(data_dir=tmp_path) as cluster:
        assert cluster.cluster_id == cluster_id
        assert values(cluster, "orders") == [b"1", b"2", b"3"]
        cluster.seed("orders", [b"4"], partition=1)
        assert values(cluster, "orders") == [b"1", b"2", b"3", b"4"]


def test_three_nodes_come_back_with_all_of_their_replicas(tmp_path: Path) -> None:
    with Cluster(3, topics={"orders": 6}, data_dir=tmp_path) as cluster:
        for partition in range(6):
            cluster.seed("orders", [b"%d" % partition], partition)
        before = [record.value for record in cluster.dump("orders")]
    with Cluster(3, data_dir=tmp_path) as cluster:
        assert [record.value for record in cluster.dump("orders")] == before
        cluster.wait_until_in_sync("orders")


def test_the_files_have_the_names_that_kafka_gives_them(tmp_path: Path) -> None:
    with Cluster(topics=["orders"], data_dir=tmp_path) as cluster:
        cluster.seed("orders", [b"1"])
        cluster_id = cluster.cluster_id
    node = tmp_path / "node-1"
    assert sorted(path.name for path in node.iterdir()) == [
        ".kafka_cleanshutdown",
        ".lock",
        "log-start-offset-checkpoint",
        "meta.properties",
        "orders-0",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
    ]
    assert sorted(path.name for path in (node / "orders-0").iterdir()) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000001.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
    assert (node / "recovery-point-offset-checkpoint").read_text() == "0\n1\norders 0 1\n"
    assert (node / "replication-offset-checkpoint").read_text() == "0\n1\norders 0 1\n"
    properties = (node / "meta.properties").read_text().splitlines()
    assert properties[:3] == ["version=1", f"cluster.id={cluster_id}", "node.id=1"]
    assert (tmp_path / "controller" / "__cluster_metadata-0").is_dir()


def test_a_second_life_after_a_clean_end_reads_no_batch_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Cluster(topics=["orders"], data_dir=tmp_path) as cluster:
        cluster.seed("orders", [b"damaged", b"2"])
    log = tmp_path / "node-1" / "orders-0" / "00000000000000000000.log"
    log.write_bytes(log.read_bytes().replace(b"damaged", b"DAMAGED"))
    with Cluster(data_dir=tmp_path) as cluster:
        assert cluster.call(lambda: cluster._cluster.partition("orders").log.log_end_offset) == 2
    assert "damaged" not in caplog.text


def test_a_life_that_did_not_end_cleanly_is_recovered_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Cluster(topics=["orders"], data_dir=tmp_path) as cluster:
        cluster.seed("orders", [b"whole"])
        cluster.seed("orders", [b"damaged", b"2"])
    node = tmp_path / "node-1"
    (node / ".kafka_cleanshutdown").unlink()
    (node / "recovery-point-offset-checkpoint").unlink()
    log = node / "orders-0" / "00000000000000000000.log"
    log.write_bytes(log.read_bytes().replace(b"damaged", b"DAMAGED"))
    with Cluster(data_dir=tmp_path) as cluster:
        assert values(cluster, "orders") == [b"whole"]
    assert "orders-0/00000000000000000000.log is damaged" in caplog.text


def test_configs_and_groups_are_there_again(tmp_path: Path) -> None:
    with Cluster(topics=["orders"], data_dir=tmp_path) as cluster:
        cluster.seed("orders", [b"1", b"2", b"3"])
        asyncio.run(_commit(cluster.bootstrap))
    with Cluster(data_dir=tmp_path) as cluster:
        assert asyncio.run(_committed(cluster.bootstrap)) == 2
        overrides = cluster.call(
            lambda: cluster._cluster.controller.state.image.config_overrides(2, "orders")
        )
        assert overrides == {"retention.ms": "1234567"}


async def _commit(bootstrap: str) -> None:
    async with ottla.AsyncClient(bootstrap) as client:
        await client.admin.alter_configs(topic="orders", set={"retention.ms": 1234567})
        await client.admin.alter_group_offsets("readers", {ottla.TopicPartition("orders", 0): 2})


async def _committed(bootstrap: str) -> int | None:
    async with ottla.AsyncClient(bootstrap) as client:
        committed = (await client.admin.group_offsets("readers"))[ottla.TopicPartition("orders", 0)]
        assert isinstance(committed, GroupOffset)
        return committed.offset


def test_transactions_are_there_again(tmp_path: Path) -> None:
    with Cluster(topics=["orders"], data_dir=tmp_path) as cluster:
        _transact(cluster.bootstrap, b"committed")
        with pytest.raises(LookupError):
            _transact(cluster.bootstrap, b"aborted", then=LookupError())
    with Cluster(data_dir=tmp_path) as cluster:
        assert values(cluster, "orders") == [b"committed"]
        before = asyncio.run(_transaction(cluster.bootstrap))
        assert before.state == "CompleteAbort"
        _transact(cluster.bootstrap, b"again")
        assert values(cluster, "orders") == [b"committed", b"again"]
        after = asyncio.run(_transaction(cluster.bootstrap))
        assert (after.producer_id, after.state) == (before.producer_id, "CompleteCommit")
        assert after.producer_epoch > before.producer_epoch


def _transact(bootstrap: str, value: bytes, then: Exception | None = None) -> None:
    with ottla.Client(bootstrap, transactional_id="transfers") as client, client.transaction():
        client.produce("orders", value).result(timeout=30)
        if then is not None:
            raise then


async def _transaction(bootstrap: str) -> TransactionDescription:
    async with ottla.AsyncClient(bootstrap) as client:
        return await client.admin.describe_transaction("transfers")


def test_topics_may_be_named_again_if_they_are_as_wanted(tmp_path: Path) -> None:
    wanted = {"orders": TopicSpec(2, config={"retention.ms": 5000})}
    with Cluster(topics=wanted, data_dir=tmp_path) as cluster:
        cluster.seed("orders", [b"1"])
    with Cluster(topics={**wanted, "payments": 1}, data_dir=tmp_path) as cluster:
        assert values(cluster, "orders") == [b"1"]
        assert values(cluster, "payments") == []


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (TopicSpec(3), "exists with partitions 2, not 3"),
        (TopicSpec(2, replicas=3), "exists with replicas 1, not 3"),
        (TopicSpec(2, config={"retention.ms": 5000}), "exists with retention.ms not set, not 5000"),
    ],
)
def test_a_topic_that_is_not_as_wanted_is_named(tmp_path: Path, spec: TopicSpec, said: str) -> None:
    with Cluster(topics={"orders": 2}, data_dir=tmp_path):
        pass
    with pytest.raises(ValueError, match=said):
        Cluster(topics={"orders": spec}, data_dir=tmp_path).start()


def test_a_deleted_topic_is_renamed_and_its_files_go_later(tmp_path: Path) -> None:
    with Cluster(topics=["orders"], data_dir=tmp_path) as cluster:
        cluster.seed("orders", [b"1"])
        cluster.delete_topic("orders")
        (doomed,) = (tmp_path / "node-1").glob("orders-0.*-delete")
        cluster.create_topic("orders")
        assert values(cluster, "orders") == []
        assert doomed.is_dir()
        cluster.clock.advance(60)
        cluster.wait_for(lambda: not doomed.exists(), "that the files are removed")
    assert (tmp_path / "node-1" / "orders-0").is_dir()


def test_what_was_deleted_before_the_end_is_removed_in_the_next_life_after_the_delay(tmp_path: Path) -> None:
    with Cluster(topics=["orders"], data_dir=tmp_path) as cluster:
        cluster.delete_topic("orders")
    (doomed,) = (tmp_path / "node-1").glob("orders-0.*-delete")
    with Cluster(data_dir=tmp_path) as cluster:
        assert doomed.is_dir()
        cluster.clock.advance(60)
        cluster.wait_for(lambda: not doomed.exists(), "that the files are removed")


def test_a_log_that_the_cluster_does_not_know_is_put_aside(tmp_path: Path) -> None:
    with Cluster(topics=["orders"], data_dir=tmp_path) as cluster:
        cluster.seed("orders", [b"1"])
    node = tmp_path / "node-1"
    (node / "orders-0").rename(node / "unknown-0")
    with Cluster(data_dir=tmp_path) as cluster:
        (stray,) = node.glob("unknown-0.*-stray")
        assert (stray / "00000000000000000000.log").stat().st_size
        assert values(cluster, "orders") == []


def test_a_log_of_another_topic_of_the_same_name_is_put_aside(tmp_path: Path) -> None:
    with Cluster(topics=["orders"], data_dir=tmp_path) as cluster:
        cluster.seed("orders", [b"1"])
    metadata = tmp_path / "node-1" / "orders-0" / "partition.metadata"
    metadata.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    with Cluster(data_dir=tmp_path) as cluster:
        assert values(cluster, "orders") == []
        assert list((tmp_path / "node-1").glob("orders-0.*-stray"))


def test_a_start_of_a_log_that_was_moved_is_there_again(tmp_path: Path) -> None:
    with Cluster(topics=["orders"], data_dir=tmp_path) as cluster:
        cluster.seed("orders", [b"1", b"2", b"3"])
        cluster.call(lambda: cluster._cluster.partition("orders").delete_records(2))
    assert (tmp_path / "node-1" / "log-start-offset-checkpoint").read_text() == "0\n1\norders 0 2\n"
    with Cluster(data_dir=tmp_path) as cluster:
        assert values(cluster, "orders") == [b"3"]


# Directories that must not be used


def test_a_topic_that_is_made_again_does_not_begin_where_the_old_one_did(tmp_path: Path) -> None:
    starts = tmp_path / "node-1" / "log-start-offset-checkpoint"
    with Cluster(topics=["orders"], data_dir=tmp_path) as cluster, ottla.Client(cluster.bootstrap) as kafka:
        cluster.seed("orders", [b"old"] * 20)
        kafka.admin.delete_records({ottla.TopicPartition("orders", 0): 15})
    with Cluster(data_dir=tmp_path) as cluster, ottla.Client(cluster.bootstrap) as kafka:
        assert "orders 0 15" in starts.read_text()
        kafka.admin.delete_topics(["orders"])
        kafka.admin.create_topic("orders")
        kafka.produce("orders", b"new").result(timeout=30)
        cluster.wait_for(lambda: "orders 0 15" not in starts.read_text(), "that the old start is forgotten")
        cluster.stop_node(1, clean=False)
        cluster.start_node(1)
        assert values(cluster, "orders") == [b"new"]


def test_the_directory_of_another_cluster_is_refused(tmp_path: Path) -> None:
    with Cluster(data_dir=tmp_path / "a"), Cluster(data_dir=tmp_path / "b"):
        pass
    (tmp_path / "a" / "node-1").rename(tmp_path / "a" / "old")
    (tmp_path / "b" / "node-1").rename(tmp_path / "a" / "node-1")
    with pytest.raises(
        LogDirError, match=r"node-1 belongs to another node: cluster\.id .* Use the data directory"
    ):
        Cluster(data_dir=tmp_path / "a").start()


def test_the_directory_of_another_node_is_refused(tmp_path: Path) -> None:
    with Cluster(2, data_dir=tmp_path):
        pass
    (tmp_path / "node-1").rename(tmp_path / "old")
    (tmp_path / "node-2").rename(tmp_path / "node-1")
    with pytest.raises(LogDirError, match=r"node\.id in its meta\.properties is 2, here it is 1"):
        Cluster(data_dir=tmp_path).start()


def test_data_dirs_in_another_order_are_refused_and_stay_as_they_are(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with Cluster(topics={"orders": 2}, data_dir=[first, second]) as cluster:
        cluster.seed("orders", [b"1"])
    for mistaken in ([second, first], second):
        with pytest.raises(LogDirError, match=r"metadata log is not in .*second\. Name .* in the same order"):
            Cluster(data_dir=mistaken).start()
    with Cluster(data_dir=[first, second]) as cluster:
        assert values(cluster, "orders") == [b"1"]


def test_nodes_of_a_data_dir_that_are_not_started_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Cluster(3, data_dir=tmp_path) as cluster:
        cluster.remove_node(2)
    with Cluster(data_dir=tmp_path) as cluster:
        assert cluster.nodes == [1]
    assert "nodes 3 of this data directory are not started" in caplog.text
    assert "brokers=3 starts all" in caplog.text


def test_a_controller_whose_properties_are_damaged_is_refused(tmp_path: Path) -> None:
    with Cluster(data_dir=tmp_path):
        pass
    (tmp_path / "controller" / "meta.properties").write_text("version=1\n")
    with pytest.raises(LogDirError, match=r"controller/meta\.properties has no cluster\.id\. Use"):
        Cluster(data_dir=tmp_path).start()


def test_the_directory_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    with Cluster(data_dir=tmp_path):
        pass
    properties = tmp_path / "node-1" / "meta.properties"
    properties.write_text(properties.read_text().replace("version=1", "version=2"))
    with pytest.raises(LogDirError, match="version 2, this release knows 1 only"):
        Cluster(data_dir=tmp_path).start()


def test_a_directory_in_use_is_refused_until_the_other_cluster_is_closed(tmp_path: Path) -> None:
    with (
        Cluster(data_dir=tmp_path),
        pytest.raises(DirectoryInUseError, match=r"in use: .* Stop it, or choose another"),
    ):
        Cluster(data_dir=tmp_path).start()
    with Cluster(data_dir=tmp_path) as cluster:
        assert cluster.nodes == [1]


def test_a_directory_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(LogDirError, match=r"cannot be used: .* Choose another data_dir"):
        Cluster(data_dir=tmp_path / "file").start()


@pytest.mark.parametrize("given", [7, [7], b"bytes", {"a": 1}])
def test_something_else_than_a_path_is_named(given: object) -> None:
    with pytest.raises(TypeError, match="a path, or a list of paths"):
        data_dirs(given)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["", [], ["a", "a"]])
def test_paths_that_make_no_sense_are_named(given: str | list[str]) -> None:
    with pytest.raises(ValueError, match="data_dir="):
        data_dirs(given)


def test_flush_ms_flushes_what_has_waited_for_so_long(tmp_path: Path) -> None:
    config = {"log.flush.scheduler.interval.ms": 60_000, "log.flush.interval.ms": 300_000}
    with Cluster(topics=["orders"], data_dir=tmp_path, config=config) as cluster:
        cluster.seed("orders", [b"1", b"2"])
        log = cluster.call(lambda: cluster._cluster.partition("orders").log)
        assert log.recovery_point == 0
        cluster.clock.advance(301)
        cluster.wait_for(lambda: log.recovery_point == 2, "that the log is flushed")


def test_recovery_points_are_written_down_now_and_then(tmp_path: Path) -> None:
    with Cluster(topics=["orders"], data_dir=tmp_path) as cluster:
        cluster.seed("orders", [b"1", b"2"])
        cluster.call(lambda: cluster._cluster.partition("orders").log.flush(0))
        cluster.clock.advance(60)
        checkpoint = tmp_path / "node-1" / "recovery-point-offset-checkpoint"
        cluster.wait_for(
            lambda: checkpoint.exists() and "orders 0 2" in checkpoint.read_text(), "a checkpoint"
        )
