"""Clients that nobody here wrote, each behind the same few words: confluent-kafka, aiokafka, kafka-python."""

from tests.interop.peers.base import Outcome, Peer, Sent
from tests.interop.peers.by_aiokafka import AioKafka
from tests.interop.peers.by_confluent import Confluent
from tests.interop.peers.by_kafka_python import KafkaPython

PEERS: tuple[Peer, ...] = (Confluent(), AioKafka(), KafkaPython())

__all__ = ["PEERS", "Outcome", "Peer", "Sent"]
