"""What an exactly-once sink raises: each says what has happened to the batch, and what to do."""

from __future__ import annotations

from ottla.errors import KafkaError


class SinkError(KafkaError):
    """A batch cannot be written exactly once, or not now."""


class SinkFencedError(SinkError):
    """Another driver with this sink id has taken over: this one must stop."""


class OutdatedBatchError(SinkError):
    """A later batch than this one is decided already: the checkpoint, or the driver, is an old one."""


class MismatchingReplayError(SinkError):
    """A batch that was decided, and not all committed, is run again with another number of tasks."""


class ForeignSinkError(SinkError):
    """What the sink id has written belongs to another query."""


class TransactionLostError(SinkError):
    """The transaction of a task is gone; the batch is not committed, and has to be run again."""


class UnknownOutcomeError(SinkError):
    """What has become of a transaction is not known in time; the batch has to be run again."""


class ControlRecordError(SinkError):
    """The control topic holds a record that is none of ours."""
