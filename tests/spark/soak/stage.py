"""The program of a stage: a query that copies a topic to another, exactly once, until it is killed.

python -m tests.spark.soak.stage MASTER BOOTSTRAP SOURCE TARGET CHECKPOINT TIMEOUT_MS
"""

from __future__ import annotations

import argparse

from tests.spark.crashes.program import session

_TRIGGER = "500 milliseconds"


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("master", "bootstrap", "source", "target", "checkpoint", "timeout_ms"):
        parser.add_argument(name)
    given = parser.parse_args()
    source = {
        "kafka.bootstrap.servers": given.bootstrap,
        "subscribe": given.source,
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
        # A task for each partition: with one, half of the sink's protocol would never run.
        "minPartitions": "4",
    }
    sink = {
        "kafka.bootstrap.servers": given.bootstrap,
        "topic": given.target,
        "kafka.transaction.timeout.ms": given.timeout_ms,
        "checkpointLocation": given.checkpoint,
    }
    rows = session(given.master).readStream.format("ottla").options(**source).load().select("value")
    query = rows.writeStream.format("ottla").options(**sink).trigger(processingTime=_TRIGGER).start()
    query.awaitTermination()


if __name__ == "__main__":
    main()
