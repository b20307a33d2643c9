"""Ottla: Kafka for Python and Spark. The public names, and nothing else."""

from ottla.errors import KafkaError

__all__ = ["KafkaError", "__version__"]

__version__ = "0.1.0.dev0"
