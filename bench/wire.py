"""The wire layer against the clients that are written in Python: aiokafka and kafka-python.

A Metadata response of 100 topics with 10 partitions each, version 12: the largest message that clients handle
often. aiokafka has no class for that version, so its own types are put together the way its classes do it.
kio, whose codec is compiled Rust, is measured too and not counted: it is not a client.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from aiokafka.protocol import types as aiokafka_types
from kafka.protocol.metadata import MetadataResponse as KafkaPythonMetadataResponse
from kio.schema.metadata.v12.response import MetadataResponse as KioMetadataResponse
from kio.serial import entity_reader, entity_writer

from bench.harness import Figure, Result, cpu_per_call, interleaved
from ottla.wire import Uuid
from ottla.wire.messages import MetadataResponse

VERSION = 12
TOPICS, PARTITIONS = 100, 10


def metadata() -> MetadataResponse:
    broker, topic = MetadataResponse.MetadataResponseBroker, MetadataResponse.MetadataResponseTopic
    partition = MetadataResponse.MetadataResponsePartition
    return MetadataResponse(
        brokers=[broker(node_id=n, host=f"broker-{n}.example.com", port=9092) for n in range(3)],
        cluster_id="5L6g3nShT-eMCtK--X86sw",
        controller_id=1,
        topics=[
            topic(
                name=f"topic-{number:03}",
                topic_id=Uuid(number.to_bytes(16)),
                partitions=[
                    partition(
                        partition_index=index,
                        leader_id=index % 3,
                        leader_epoch=7,
                        replica_nodes=[index % 3, (index + 1) % 3, (index + 2) % 3],
                        isr_nodes=[index % 3, (index + 1) % 3, (index + 2) % 3],
                    )
                    for index in range(PARTITIONS)
                ],
            )
            for number in range(1, TOPICS + 1)
        ],
    )


class Codec:
    """One implementation: how it reads the bytes, and how it writes what it has read."""

    def __init__(self, read: Callable[[], Any], write: Callable[[Any], Any], data: bytes) -> None:
        message = read()
        written = bytes(write(message))
        if written != data:
            raise AssertionError("a peer does not write what it has read: the comparison would not be one")
        self.read = read
        self.write = lambda: write(message)


def ours(data: bytes) -> Codec:
    return Codec(
        lambda: MetadataResponse.decode(data, VERSION),
        lambda message: message.encode(VERSION),
        data,
    )


def kafka_python(data: bytes) -> Codec:
    def read() -> Any:
        message = KafkaPythonMetadataResponse.decode(data, version=VERSION)
        message._header = message._min_version = message._max_version = None  # what decode leaves unset
        return message

    return Codec(read, lambda message: message.encode(version=VERSION), data)


def aiokafka(data: bytes) -> Codec:
    t = aiokafka_types
    text, tags = t.CompactString("utf-8"), ("tags", t.TaggedFields)

    class TopicId:
        @staticmethod
        def encode(value: bytes) -> bytes:
            return value

        @staticmethod
        def decode(stream: io.BytesIO) -> bytes:
            return stream.read(16)

    partition = [(name, t.Int32) for name in ("index", "leader", "epoch")]
    replicas = [(name, t.CompactArray(t.Int32)) for name in ("replicas", "isr", "offline")]
    schema = t.Schema(
        ("throttle", t.Int32),
        ("brokers", t.CompactArray(("id", t.Int32), ("host", text), ("port", t.Int32), ("rack", text), tags)),
        ("cluster", text),
        ("controller", t.Int32),
        (
            "topics",
            t.CompactArray(
                ("error", t.Int16),
                ("name", text),
                ("topic_id", TopicId),
                ("internal", t.Boolean),
                ("partitions", t.CompactArray(("error", t.Int16), *partition, *replicas, tags)),
                ("operations", t.Int32),
                tags,
            ),
        ),
        tags,
    )
    return Codec(lambda: schema.decode(io.BytesIO(data)), schema.encode, data)


def kio(data: bytes) -> Codec:
    read, write = entity_reader(KioMetadataResponse), entity_writer(KioMetadataResponse)

    def written(message: Any) -> bytes:
        out = io.BytesIO()
        write(out, message)
        return out.getvalue()

    return Codec(lambda: read(data, 0)[0], written, data)


def run(repeats: int) -> Result:
    data = metadata().encode(VERSION)
    codecs = {
        "ottla": ours(data),
        "aiokafka": aiokafka(data),
        "kafka_python": kafka_python(data),
        "kio": kio(data),
    }
    cases: dict[str, Callable[[], float]] = {}
    for name, codec in codecs.items():
        cases[f"metadata_decode_{name}"] = lambda codec=codec: cpu_per_call(codec.read) * 1e3  # type: ignore[misc]
        cases[f"metadata_encode_{name}"] = lambda codec=codec: cpu_per_call(codec.write) * 1e3  # type: ignore[misc]
    samples = interleaved(cases, repeats, "wire")
    result = Result("wire", figures={name: Figure("ms", values) for name, values in samples.items()})
    for work in ("decode", "encode"):
        peers = [result.figures[f"metadata_{work}_{peer}"].median for peer in ("aiokafka", "kafka_python")]
        mine = result.figures[f"metadata_{work}_ottla"].median
        result.ratios[f"metadata_{work}_speedup"] = min(peers) / mine
    result.notes.append(
        f"{TOPICS} topics x {PARTITIONS} partitions, v{VERSION}, {len(data):,} bytes; CPU per call"
    )
    return result
