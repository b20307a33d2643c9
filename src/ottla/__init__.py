"""Ottla: Kafka for Python and Spark. The public names, and nothing else.

They are imported when they are first used: `import ottla` in a Spark worker that only decodes costs nothing more.
"""

from ottla._version import __version__
from ottla.errors import KafkaError

# The name that type checkers take for true: importing `typing` would take longer than this whole file.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from ottla.client.blocking.client import Client
    from ottla.client.blocking.consumer import Consumer
    from ottla.client.client import AsyncClient
    from ottla.client.consume.consumer import AsyncConsumer
    from ottla.client.consume.dead_letters import DeadLetters
    from ottla.client.consume.iterators import AsyncBatchReader, BatchReader
    from ottla.client.consume.offset_spec import Timestamp
    from ottla.client.produce.batch_delivery import BatchDelivery, PartlySentError
    from ottla.client.topic_partition import TopicPartition
    from ottla.config import ClientConfig

__all__ = [
    "AsyncBatchReader",
    "AsyncClient",
    "AsyncConsumer",
    "BatchDelivery",
    "BatchReader",
    "Client",
    "ClientConfig",
    "Consumer",
    "DeadLetters",
    "KafkaError",
    "PartlySentError",
    "Timestamp",
    "TopicPartition",
    "__version__",
]

_MODULES = {
    "AsyncBatchReader": "ottla.client.consume.iterators",
    "AsyncClient": "ottla.client.client",
    "AsyncConsumer": "ottla.client.consume.consumer",
    "BatchDelivery": "ottla.client.produce.batch_delivery",
    "BatchReader": "ottla.client.consume.iterators",
    "Client": "ottla.client.blocking.client",
    "ClientConfig": "ottla.config",
    "Consumer": "ottla.client.blocking.consumer",
    "DeadLetters": "ottla.client.consume.dead_letters",
    "PartlySentError": "ottla.client.produce.batch_delivery",
    "Timestamp": "ottla.client.consume.offset_spec",
    "TopicPartition": "ottla.client.topic_partition",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'ottla' has no attribute {name!r}")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return __all__
