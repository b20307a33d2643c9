"""The benchmark command keeps its contract: one JSON object on standard output, everything else elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import BENCHES
from bench.harness import Figure, Result, cpu_per_call, interleaved
from bench.records import LARGEST_WORKING_SET, USUAL_CACHE, last_level_cache, working_set

ROOT = Path(__file__).parents[2]


def bench(*arguments: str, within: float = 120) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=within, check=False)


RATIOS = {
    "wire": {"metadata_decode_speedup", "metadata_encode_speedup"},
    "records": {
        "decode_vs_memcpy",
        "encode16_vs_memcpy",
        "append_vs_confluent",
        "append_header_vs_confluent",
        "append_handles_vs_confluent",
        "iterate_vs_confluent",
        "small_batches_vs_large",
        "import_ms",
    },
    "broker": {
        "ready_ms",
        "produce_100b_vs_mock",
        "fetch_100b_vs_mock",
        "produce_1kb_vs_mock",
        "fetch_1kb_vs_mock",
    },
    "replication": {"rf3_vs_rf1", "rf3_vs_kafka", "rf3_memory", "failover_ms", "idle_cpu"},
    "disk": {"recovery_vs_read", "recovery_single_vs_read", "disk_vs_memory", "compaction_vs_kafka"},
    "groups": {
        "join_1",
        "join_20",
        "pause_eager",
        "pause_cooperative",
        "stay_cooperative",
        "pause_848",
        "stay_848",
        "join_500_s",
    },
    "transactions": {"rate_1", "rate_10", "rate_1000", "cpu_1000"},
    "client": {
        "produce_arrow_cpu",
        "consume_arrow_cpu",
        "produce_loop_cpu",
        "iterate_cpu",
        "async_produce_cpu",
        "async_iterate_cpu",
        "partitions_1000_vs_1",
        "latency_p50",
        "latency_p99",
        "latency_cpu",
        "latency_busy_p99",
        "async_latency_p50",
        "produce_callback_cpu",
        "produce_small_tables_cpu",
    },
    "spark": {
        "read_vs_jvm",
        "read_registered_vs_jvm",
        "read_vs_tuned",
        "read_registered_vs_tuned",
        "read_vs_limit",
        "read_registered_vs_limit",
        "read64_vs_jvm",
        "read64_registered_vs_jvm",
        "read64_vs_tuned",
        "read64_registered_vs_tuned",
        "read200_vs_jvm",
        "read200_registered_vs_jvm",
        "read200_vs_tuned",
        "read200_registered_vs_tuned",
        "json_vs_jvm",
        "json_registered_vs_jvm",
        "json_vs_tuned",
        "json_registered_vs_tuned",
        "avro_vs_jvm",
        "avro_registered_vs_jvm",
        "avro_vs_tuned",
        "avro_registered_vs_tuned",
        "write_vs_jvm",
        "write_vs_tuned",
        "write_vs_limit",
        "microbatch_vs_floor_ms",
        "microbatch_vs_tuned_ms",
        "microbatch_vs_jvm_ms",
        "first_batch_extra_ms",
        "first_batch_vs_tuned_ms",
        "first_batch_vs_jvm_ms",
    },
    "exactly_once": {"write_vs_tuned", "protocol_ms", "recovery_ms"},
}
# They have Apache Kafka beside them, and Spark's the JVM's connector: those take minutes.
NEEDS_KAFKA = frozenset({"replication", "disk", "groups", "transactions", "spark", "exactly_once"})
WITH_STREAMS = frozenset({"spark", "exactly_once"})


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.kafka_full] if name in NEEDS_KAFKA else []) for name in RATIOS],
)
def test_json_is_one_object_and_nothing_else(name: str) -> None:
    done = bench(name, "--json", "--repeats", "1", within=600 if name in NEEDS_KAFKA else 120)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert set(result["ratios"]) == RATIOS[name]
    # What Spark's streams take beyond something else may be less than nothing.
    assert all(
        ratio > 0
        for ratio_name, ratio in result["ratios"].items()
        if name not in WITH_STREAMS or not ratio_name.endswith("_ms")
    )
    for figure in result["figures"].values():
        assert set(figure) == {"unit", "median", "min", "max", "repeats"}
    assert result["machine"]["cores"] >= 1
    assert done.stderr.startswith(f"{name}: ")
    assert "1 of 1" in done.stderr


def test_every_benchmark_is_known_here() -> None:
    assert set(RATIOS) == set(BENCHES)


def test_an_unknown_benchmark_is_named_with_those_there_are() -> None:
    done = bench("wires")
    assert done.returncode == 2
    assert "'wires'" in done.stderr
    assert "wire" in done.stderr
    assert bench("wire", "--repeats", "0").returncode == 2
    assert bench("wire", "--full").returncode == 2


def test_repeats_are_interleaved() -> None:
    order: list[str] = []

    def case(name: str) -> float:
        order.append(name)
        return float(len(order))

    samples = interleaved({"a": lambda: case("a"), "b": lambda: case("b")}, repeats=3, label="test")
    assert order == ["a", "b"] * 3
    assert samples == {"a": (1.0, 3.0, 5.0), "b": (2.0, 4.0, 6.0)}


def test_the_median_is_shown_with_its_spread() -> None:
    result = Result("x", ratios={"speedup": 2.0}, figures={"time": Figure("ms", (1.0, 9.0, 2.0))})
    assert json.loads(result.as_json())["figures"]["time"] == {
        "unit": "ms",
        "median": 2.0,
        "min": 1.0,
        "max": 9.0,
        "repeats": 3,
    }
    assert "(1 to 9, 3 repeats)" in result.as_table()


def test_the_working_set_is_four_times_the_last_level_cache(tmp_path: Path) -> None:
    for index, size in enumerate(["32K", "512K", "49152K"]):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "size").write_text(size + "\n")
    assert last_level_cache(tmp_path) == 48 << 20
    assert last_level_cache(tmp_path / "another system") == USUAL_CACHE
    assert working_set(repeats=9) >= 4 * last_level_cache() or working_set(repeats=9) == LARGEST_WORKING_SET
    assert working_set(repeats=1) < working_set(repeats=2)


def test_cpu_is_counted_per_call() -> None:
    few = cpu_per_call(lambda: sum(range(2_000)), at_least=0.02)
    many = cpu_per_call(lambda: sum(range(200_000)), at_least=0.02)
    assert few < many
