"""The JVM's Kafka connector, which ours is held against, and Spark's Avro: jars of the lock file next to this module.

    python -m tests.interop.spark.connector           fetch what the cache lacks
    python -m tests.interop.spark.connector --lock    make the lock file anew from COORDINATES

The connector is 4.2.0 though Spark is 4.3: no newer one was published when this was written, and it runs on 4.3 as
it is. Its own pom is not resolved, because half of what it asks for is Spark itself: what Spark lacks is named here.
The token provider has no release of 4.2.0; the connector calls it the same way in this one. Of spark-avro the newest
was 4.1.1, which runs on 4.3 too.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.interop import jars

VERSION = "4.2.0"
COORDINATES = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{VERSION}",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.0-preview1",
    "org.apache.spark:spark-avro_2.13:4.1.1",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)
LOCK_FILE = Path(__file__).with_name(f"spark-kafka-{VERSION}.jars")


def ensure() -> list[Path]:
    """The paths of all jars, fetched first where they are missing."""
    return jars.ensure(LOCK_FILE)


if __name__ == "__main__":
    if "--lock" in sys.argv[1:]:
        jars.write_lock(COORDINATES, LOCK_FILE)
    sys.stderr.write(f"jars: {len(ensure())} in {jars.cache_folder(LOCK_FILE)}\n")
