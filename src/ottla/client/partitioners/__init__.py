"""Which partition a record goes to, when it does not name one itself.

A `Partitioner` is an option of a producer: a value without state. For each topic it makes a `TopicPartitioner`, which
has the state and is called once per record, by the appending thread and under the lock of the topic:

    partition = topic.choose(key, value, size, load)
    if opens_a_batch(partition, size) and topic.on_new_batch(partition):
        partition = topic.choose(key, value, size, load)

A record that names its partition goes there whatever the partitioner is, as in Kafka's own client, without a call.
Nothing here reads a clock, waits, or knows a broker: what is going on comes in as a `Load`.

| name                | records with a key          | records without             | whole columns |
| ------------------- | --------------------------- | --------------------------- | ------------- |
| `default`           | murmur2 of the key          | by load, about a batch each | `BY_KEY`      |
| `hash`              | murmur2 of the key          | at random, batch by batch   | `BY_KEY`      |
| `consistent_random` | CRC-32 of the key           | at random, batch by batch   | `BY_ROW`      |
| `round_robin`       | each to the next partition  | the same                    | `IN_TURN`     |
| `least_backup`      | where the fewest bytes wait | the same                    | `ONE`         |
| `manual`            | an error                    | an error                    | `NAMED`       |
| a function          | what it says, checked       | the same                    | `BY_ROW`      |
"""

from ottla.client.partitioners.base import ColumnsMode, Load, Partitioner, TopicPartitioner
from ottla.client.partitioners.default import DefaultPartitioner
from ottla.client.partitioners.function import FunctionPartitioner, PartitionFunction
from ottla.client.partitioners.keys import (
    ConsistentRandomPartitioner,
    HashPartitioner,
    crc32_partition,
    murmur2_partition,
)
from ottla.client.partitioners.leaders import LeaderLatency
from ottla.client.partitioners.least_backup import LeastBackupPartitioner
from ottla.client.partitioners.manual import ManualPartitioner
from ottla.client.partitioners.names import as_partitioner
from ottla.client.partitioners.round_robin import RoundRobinPartitioner

__all__ = [
    "ColumnsMode",
    "ConsistentRandomPartitioner",
    "DefaultPartitioner",
    "FunctionPartitioner",
    "HashPartitioner",
    "LeaderLatency",
    "LeastBackupPartitioner",
    "Load",
    "ManualPartitioner",
    "PartitionFunction",
    "Partitioner",
    "RoundRobinPartitioner",
    "TopicPartitioner",
    "as_partitioner",
    "crc32_partition",
    "murmur2_partition",
]
