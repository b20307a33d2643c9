"""The process of the brokers: an embedded cluster of three nodes, on disk, that can be told to lose one of them.

    {"event": "cluster", "bootstrap": "127.0.0.1:4101,..."}                       first
    {"event": "nodes", "partitions": 12, "nodes": [[1, true, 4, 12], ...]}        whenever that has changed:
                                                                         id, runs, leads, in sync of all partitions
    {"event": "node killed", "node": 2}, {"event": "node started", "node": 2}     what it was told is done

Commands are `kill 2` and `start 2`. A node that is killed closes its sockets in the middle of whatever it does and
says goodbye to none: the controller gives its leaderships away when it has been silent for `SESSION_MS`. What it had
written to its files is there when it starts again, and it fetches from the others what it has missed.
"""

from __future__ import annotations

import argparse
import threading

from demo.children import commands, say
from demo.orders import TOPICS
from ottla.broker import Cluster

NODES = 3
SESSION_MS = 2_000
CONFIG = {
    "default.replication.factor": NODES,
    "min.insync.replicas": 2,
    "broker.session.timeout.ms": SESSION_MS,
    "broker.heartbeat.interval.ms": 200,
    "transaction.state.log.num.partitions": 6,
    # A node that has come back leads again what it led before: in seconds, where the default is five minutes.
    "leader.imbalance.check.interval.seconds": 2,
}
_LOOK_S = 0.2


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m demo.cluster", description=__doc__.partition("\n")[0])
    parser.add_argument("--data-dir", required=True)
    options = parser.parse_args()
    over = threading.Event()
    with Cluster(NODES, topics=TOPICS, config=CONFIG, data_dir=options.data_dir) as cluster:
        say("cluster", bootstrap=cluster.bootstrap)
        watch = NodeWatch(cluster)
        watching = threading.Thread(target=_keep_looking, args=(watch, over))
        watching.start()
        try:
            for command, node in commands():
                carry_out(cluster, command, int(node))
                # What it was told is seen at once: a node that is back before the next look was away all the same.
                watch.look()
        finally:
            over.set()
            watching.join()


def carry_out(cluster: Cluster, command: str, node: int) -> None:
    if command == "kill":
        cluster.stop_node(node, clean=False)
        say("node killed", node=node)
    else:
        cluster.start_node(node)
        say("node started", node=node)


class NodeWatch:
    """Says what has become of the nodes since the last look, from whichever thread."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._seen: list[tuple[int, bool, int, int]] | None = None
        self._lock = threading.Lock()

    def look(self) -> None:
        with self._lock:
            now = states(self._cluster)
            if now != self._seen:
                self._seen = now
                say("nodes", partitions=sum(TOPICS.values()), nodes=now)


def _keep_looking(watch: NodeWatch, over: threading.Event) -> None:
    while not over.wait(_LOOK_S):
        watch.look()


def states(cluster: Cluster) -> list[tuple[int, bool, int, int]]:
    """Of each node: its id, whether it runs, how many of the demo's partitions it leads, and is in sync in."""
    running = cluster.nodes
    places = [(topic, number) for topic, count in TOPICS.items() for number in range(count)]
    leaders = [cluster.leader(*place) for place in places]
    in_sync = [node for place in places for node in cluster.in_sync(*place)]
    return [(node, node in running, leaders.count(node), in_sync.count(node)) for node in range(1, NODES + 1)]


if __name__ == "__main__":
    main()
