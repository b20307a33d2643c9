"""The embedded cluster: a Kafka for tests and local work that starts in milliseconds, in this process.

    from ottla.broker import Cluster

    with Cluster(brokers=3, topics={"orders": 6}) as cluster:
        print(cluster.bootstrap)

Clients in any language reach it on the loopback interface. `python -m ottla.broker` runs it by itself. It is for
tests and for one's own machine: production runs Apache Kafka.
"""

from ottla.broker.cluster.blocking import BlockingFault, Cluster
from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.cluster.node import NodeFailedError
from ottla.broker.cluster.options import TopicSpec
from ottla.broker.server.faults import Fault, delay, drop, error, never
from ottla.broker.server.telemetry import Push

__all__ = [
    "AsyncCluster",
    "BlockingFault",
    "Cluster",
    "Fault",
    "NodeFailedError",
    "Push",
    "TopicSpec",
    "delay",
    "drop",
    "error",
    "never",
]
