"""The name of the one log directory of a node.

Kafka's nodes keep their logs in the directories of log.dirs, on one disk or more. A node of the embedded cluster has
a volume, and so one directory, which is on no disk: its path is absolute, stable, and another one on each node.
"""

from __future__ import annotations


def log_dir(node_id: int) -> str:
    """What requests about log directories call the volume of a node."""
    return f"/ottla/node-{node_id}"
