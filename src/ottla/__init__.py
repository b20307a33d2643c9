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
    from ottla.client.blocking.group_consumer import GroupConsumer
    from ottla.client.blocking.transact_session import TransactSession
    from ottla.client.blocking.transaction import Transaction
    from ottla.client.client import AsyncClient
    from ottla.client.consume.consumer import AsyncConsumer
    from ottla.client.consume.dead_letters import DeadLetters
    from ottla.client.consume.iterators import AsyncBatchReader, BatchReader
    from ottla.client.consume.offset_spec import Timestamp
    from ottla.client.consume.subscription import ServerPattern
    from ottla.client.group.consumer import AsyncGroupConsumer
    from ottla.client.group.health import GroupHealth
    from ottla.client.group.membership import GroupMetadata
    from ottla.client.group.offsets import OffsetAndMetadata
    from ottla.client.produce.batch_delivery import BatchDelivery, PartlySentError
    from ottla.client.topic_partition import TopicPartition
    from ottla.client.transactions.machine import TransactionState, TransactionStatus
    from ottla.client.transactions.prepared import PreparedTransaction
    from ottla.client.transactions.session import AsyncTransactSession
    from ottla.client.transactions.transaction import AsyncTransaction
    from ottla.config import ClientConfig

__all__ = [
    "AsyncBatchReader",
    "AsyncClient",
    "AsyncConsumer",
    "AsyncGroupConsumer",
    "AsyncTransactSession",
    "AsyncTransaction",
    "BatchDelivery",
    "BatchReader",
    "Client",
    "ClientConfig",
    "Consumer",
    "DeadLetters",
    "GroupConsumer",
    "GroupHealth",
    "GroupMetadata",
    "KafkaError",
    "OffsetAndMetadata",
    "PartlySentError",
    "PreparedTransaction",
    "ServerPattern",
    "Timestamp",
    "TopicPartition",
    "TransactSession",
    "Transaction",
    "TransactionState",
    "TransactionStatus",
    "__version__",
]

_MODULES = {
    "AsyncBatchReader": "ottla.client.consume.iterators",
    "AsyncClient": "ottla.client.client",
    "AsyncConsumer": "ottla.client.consume.consumer",
    "AsyncGroupConsumer": "ottla.client.group.consumer",
    "AsyncTransactSession": "ottla.client.transactions.session",
    "AsyncTransaction": "ottla.client.transactions.transaction",
    "BatchDelivery": "ottla.client.produce.batch_delivery",
    "BatchReader": "ottla.client.consume.iterators",
    "Client": "ottla.client.blocking.client",
    "ClientConfig": "ottla.config",
    "OffsetAndMetadata": "ottla.client.group.offsets",
    "Consumer": "ottla.client.blocking.consumer",
    "DeadLetters": "ottla.client.consume.dead_letters",
    "GroupConsumer": "ottla.client.blocking.group_consumer",
    "GroupHealth": "ottla.client.group.health",
    "GroupMetadata": "ottla.client.group.membership",
    "PartlySentError": "ottla.client.produce.batch_delivery",
    "PreparedTransaction": "ottla.client.transactions.prepared",
    "ServerPattern": "ottla.client.consume.subscription",
    "Timestamp": "ottla.client.consume.offset_spec",
    "TopicPartition": "ottla.client.topic_partition",
    "TransactSession": "ottla.client.blocking.transact_session",
    "Transaction": "ottla.client.blocking.transaction",
    "TransactionState": "ottla.client.transactions.machine",
    "TransactionStatus": "ottla.client.transactions.machine",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'ottla' has no attribute {name!r}")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return __all__
