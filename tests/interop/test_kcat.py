"""kcat against both brokers: list, produce, consume, query."""

from __future__ import annotations

import json

import pytest

from tests.interop import kcat
from tests.interop.brokers import Broker

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
TIME = 1_700_000_000_000


@pytest.fixture(scope="module", autouse=True)
def _kcat_is_there() -> None:
    problem = kcat.problem()
    if problem is not None:
        pytest.skip(problem)


def output(broker: Broker, *arguments: str, text: str = "") -> str:
    done = kcat.run(broker.bootstrap, *arguments, text=text)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_lists_brokers_topics_and_partitions(broker: Broker) -> None:
    topic = broker.create_topic(partitions=2)
    listed = json.loads(output(broker, "-L", "-J", "-t", topic))
    assert [node["id"] for node in listed["brokers"]] == broker.node_ids
    assert [node["name"] for node in listed["brokers"]] == broker.bootstrap.split(",")
    (found,) = listed["topics"]
    assert [(p["partition"], p["leader"]) for p in found["partitions"]] == [(0, 1), (1, 1)]


@pytest.mark.parametrize("codec", CODECS)
def test_it_reads_what_it_wrote(broker: Broker, codec: str) -> None:
    topic = broker.create_topic()
    lines = "".join(f"key-{n}:value-{n}\n" for n in range(500))
    output(broker, "-P", "-t", topic, "-p", "0", "-K", ":", "-z", codec, text=lines)
    assert output(broker, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-K", ":") == lines


def test_headers_and_null_values_pass(broker: Broker) -> None:
    topic = broker.create_topic()
    output(broker, "-P", "-t", topic, "-p", "0", "-H", "a=1", "-H", "b=", "-K", ":", "-Z", text="key:\n")
    read = output(broker, "-C", "-t", topic, "-p", "0", "-e", "-q", "-f", "%k|%S|%h\n")
    assert read == "key|-1|a=1,b=\n"


def test_it_reads_from_an_offset_and_from_the_end(broker: Broker) -> None:
    topic = broker.create_topic()
    output(broker, "-P", "-t", topic, "-p", "0", text="one\ntwo\nthree\n")
    assert output(broker, "-C", "-t", topic, "-p", "0", "-o", "1", "-e", "-q") == "two\nthree\n"
    assert output(broker, "-C", "-t", topic, "-p", "0", "-o", "-1", "-e", "-q") == "three\n"


def test_it_queries_offsets(broker: Broker) -> None:
    topic = broker.create_topic()
    output(broker, "-P", "-t", topic, "-p", "0", text="one\ntwo\n")
    assert output(broker, "-Q", "-t", f"{topic}:0:-1").split() == [topic, "[0]", "offset", "2"]
    assert output(broker, "-Q", "-t", f"{topic}:0:-2").split() == [topic, "[0]", "offset", "0"]
    assert output(broker, "-Q", "-t", f"{topic}:0:1").split() == [topic, "[0]", "offset", "0"]


def test_an_unknown_topic_is_an_error(broker: Broker) -> None:
    done = kcat.run(
        broker.bootstrap, "-C", "-t", "kcat-none", "-p", "0", "-e", "-X", "allow.auto.create.topics=false"
    )
    assert done.returncode != 0
    assert "Unknown topic or partition" in done.stderr
