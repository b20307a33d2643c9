"""Every error that Ottla raises on purpose: one tree under `KafkaError`, with a class per broker error code.

The class statements are the table of Kafka's codes: the number and Kafka's own name stand in the header, what
kind of error it is stands in the bases, and the docstring is the message that a user reads. That is why this
file is long: it is data. The logic is in its first and last page.

Not here: what a client does about an error (`client`), and which broker responds with which code (`broker`).
This file is the bottom of the layers and imports nothing of ottla.

Invariant: every number has a class. `error_for` and `from_code` never raise; a code that a newer broker
invents becomes an `UnknownCodeError` that carries the number.
"""

from __future__ import annotations

from types import MappingProxyType

# The name that type checkers take for true. Importing `typing` costs several times what this whole file does,
# and this file is imported by everything, Spark's workers included.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import ClassVar

_registry: dict[int, type[BrokerError]] = {}


class KafkaError(Exception):
    """The base of everything that Ottla raises on purpose."""


class ProtocolError(KafkaError):
    """Bytes and messages do not agree."""


class DecodeError(ProtocolError):
    """Bytes that are not the message they should be: truncated, oversized or hostile."""


class EncodeError(ProtocolError):
    """A message that cannot be written at this version."""


class ConnectionLostError(KafkaError, ConnectionError):
    """A connection ended while something still depended on it; what was requested over it may or may not be done."""


class ConnectionFailedError(KafkaError, ConnectionError):
    """A broker could not be connected to: nothing was sent, and nothing can have been done."""


class NoBrokersError(KafkaError, ConnectionError):
    """No bootstrap server and no known broker could be reached; the message has each with its reason."""


class UnknownBrokerError(KafkaError):
    """No broker of the cluster has this id, as far as the client knows."""


class UnsupportedApiError(KafkaError):
    """A broker does not have the API, or the version of it, that a call needs."""


class RequestTimeoutError(KafkaError, TimeoutError):
    """A broker did not answer in time; what was requested of it may or may not be done."""


class ApiTimeoutError(KafkaError, TimeoutError):
    """A call took longer than it may, with all its retries; the last error is its `__cause__`."""


class ClientClosedError(KafkaError):
    """The client is closed, or is being closed."""

    def __init__(self, message: str = "the client is closed") -> None:
        super().__init__(message)


class ForkedError(KafkaError):
    """A client was used in a child process that was forked from the one that made it; make one per process."""


class BufferFullError(KafkaError, BufferError):
    """Producing waited for max_block_ms and there is still no room for the record.

    `limit` is the option that bounds the buffer: "buffer_memory" or "max_buffered_records".
    """

    def __init__(self, message: str, *, limit: str | None = None) -> None:
        """`message` is the whole text; the rest is for programs."""
        super().__init__(message)
        self.limit = limit


class RecordTooLargeError(KafkaError, ValueError):
    """A record, or rows of a table that go together, would take more bytes than an option allows; nothing was kept.

    `size` is how many it takes, `limit` the option: "max_request_size" or "buffer_memory".
    """

    def __init__(self, message: str, *, size: int = 0, limit: str | None = None) -> None:
        """`message` is the whole text; the rest is for programs."""
        super().__init__(message)
        self.size = size
        self.limit = limit


class DeliveryError(KafkaError):
    """Records that `flush` or `close` waited for were not delivered; the first one's error is the `__cause__`.

    `failed` is how many.
    """

    def __init__(self, message: str, *, failed: int = 0) -> None:
        """`message` is the whole text; the rest is for programs."""
        super().__init__(message)
        self.failed = failed


class DeliveryTimeoutError(KafkaError, TimeoutError):
    """A record was not delivered within delivery_timeout_ms; the last error on the way is the `__cause__`.

    `may_be_stored` is true if a request with it was sent whose outcome is unknown.
    """

    def __init__(self, message: str, *, may_be_stored: bool = False) -> None:
        """`message` is the whole text; the rest is for programs."""
        super().__init__(message)
        self.may_be_stored = may_be_stored


class AbortedError(KafkaError):
    """A record was given up: aborted, left when the client was closed, or refused after a try without a response.

    `may_be_stored` is true if a request with it was sent whose outcome is unknown.
    """

    def __init__(self, message: str, *, may_be_stored: bool = False) -> None:
        """`message` is the whole text; the rest is for programs."""
        super().__init__(message)
        self.may_be_stored = may_be_stored


class TransactionError(KafkaError):
    """Something about a transaction; `abortable`, `fatal` and `retriable` say how the program can go on.

    What a broker's code means depends on the request that it answers, so these are classes of their own and the
    broker's error is the `__cause__`.
    """

    abortable = False
    """The transaction is to be aborted; the client can then begin another."""
    fatal = False
    """This client can produce nothing more: close it, and make a new one."""
    retriable = False
    """The same call, made again, goes on where this one has stopped waiting."""


class TransactionStateError(TransactionError):
    """A call that does not fit the state of the transaction: produce without one, begin inside of one, ...

    Nothing has changed.
    """


class AbortNeededError(TransactionError):
    """The transaction cannot be committed any more: abort it, and begin another."""

    abortable = True


class ProducerLostError(TransactionError):
    """The transactional producer is of no use any more: fenced, timed out at its coordinator, or not allowed.

    `may_be_committed` is true if a commit was sent whose outcome is unknown: read what it wrote to find out.
    """

    fatal = True

    def __init__(self, message: str, *, may_be_committed: bool = False) -> None:
        """`message` is the whole text; the rest is for programs."""
        super().__init__(message)
        self.may_be_committed = may_be_committed


class TransactionPendingError(TransactionError, TimeoutError):
    """How a transaction ends is not known yet: the client goes on trying; call the same again to wait for it."""

    retriable = True


class PreparedTransactionError(TransactionError):
    """A prepared transaction was refused to be ended as wanted.

    `is_other_outcome` is true if it has certainly ended the other way. Otherwise its producer was replaced, or its
    transactional id forgotten: it may have been ended either way before that, and only what it wrote can tell.
    """

    def __init__(self, message: str, *, is_other_outcome: bool = False) -> None:
        """`message` is the whole text; the rest is for programs."""
        super().__init__(message)
        self.is_other_outcome = is_other_outcome


class TransactionAbortedError(AbortedError):
    """A record was not delivered because its transaction is aborted, or has to be; no committed reader sees it."""


class DataLossError(KafkaError):
    """Records that were to be read are gone: the log was truncated, or starts behind them by now.

    `wanted_offset` is where reading would have gone on, `new_offset` where it can go on (-1: nowhere known).
    """

    def __init__(
        self,
        message: str,
        *,
        topic: str = "",
        partition: int = -1,
        wanted_offset: int = -1,
        new_offset: int = -1,
    ) -> None:
        """`message` is the whole text; the rest is for programs."""
        super().__init__(message)
        self.topic = topic
        self.partition = partition
        self.wanted_offset = wanted_offset
        self.new_offset = new_offset


class CommitFailedError(KafkaError):
    """Offsets were not committed: the member has lost its partitions; what it was working on goes to others."""


class MaxPollExceededError(KafkaError):
    """A member of a group took longer than max_poll_interval_ms for what it got, and has left the group."""


class SerdeError(KafkaError):
    """A key or a value and its bytes could not be turned into one another; the two kinds of it say which way.

    `field` is "key" or "value"; `expected` says what the serializer takes, or what the bytes should have been.
    What went wrong inside is the `__cause__`, and its text is part of the message, because pickle drops causes.
    """

    def __init__(self, message: str, *, topic: str, field: str, expected: str) -> None:
        """`message` is the whole text; the rest is for programs."""
        super().__init__(message)
        self.topic = topic
        self.field = field
        self.expected = expected

    def __reduce__(self) -> tuple[object, ...]:
        # As an exception does it, `cls(*args)` would miss the keywords: they come back with __dict__.
        return _unpickled, (type(self), *self.args), self.__dict__


def _unpickled(kind: type[SerdeError], *args: object) -> SerdeError:
    return kind.__new__(kind, *args)


class SerializationError(SerdeError):
    """A key or a value is not what its serializer takes; nothing of the record was sent."""

    def __init__(self, message: str, *, topic: str, field: str, expected: str, received: str) -> None:
        """`received` is the name of the type that came."""
        super().__init__(message, topic=topic, field=field, expected=expected)
        self.received = received


class DeserializationError(SerdeError):
    """The bytes of a record are not what its deserializer reads; the record is here, raw and whole (KIP-1036).

    To go on behind it, seek to `offset + 1`; to keep it, send `key`, `value` and `headers` to another topic.
    """

    def __init__(
        self,
        message: str,
        *,
        topic: str,
        partition: int,
        offset: int,
        timestamp: int,
        headers: Sequence[tuple[str, bytes | None]],
        key: bytes | None,
        value: bytes | None,
        field: str,
        expected: str,
    ) -> None:
        """`key` and `value` as they were fetched; `field` names the one that could not be read."""
        super().__init__(message, topic=topic, field=field, expected=expected)
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp
        self.headers = tuple(headers)
        self.key = key
        self.value = value

    @property
    def data(self) -> bytes | None:
        """The bytes that could not be read."""
        return self.key if self.field == "key" else self.value


class CorruptBatchError(DecodeError):
    """A batch that was fetched cannot be read, now or later: it is damaged, or too large for its bounds.

    Reading stops in front of it, at `offset`. To go on behind it, seek to `next_offset`, or `skip` the error.
    """

    def __init__(
        self, message: str, *, topic: str = "", partition: int = -1, offset: int = -1, next_offset: int = -1
    ) -> None:
        """`message` is the whole text; the rest is for programs."""
        super().__init__(message)
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.next_offset = next_offset


class MissingExtraError(KafkaError, ImportError):
    """Something optional is not installed; the message names the extra that brings it."""


class ConfigurationError(KafkaError, ValueError):
    """An option that is unknown, or has a value that it cannot have; the message says what to write instead."""

    def __init__(
        self,
        message: str,
        *,
        option: str | None = None,
        value: object = None,
        allowed: str | None = None,
        kafka_name: str | None = None,
    ) -> None:
        """`option` is the keyword and `kafka_name` Kafka's dotted name for it; `value` is what was given."""
        super().__init__(message)
        self.option = option
        self.value = value
        self.allowed = allowed
        self.kafka_name = kafka_name


class BrokerError(KafkaError):
    """A broker's response with an error code; catch it, or a kind of it, or one code's own class.

    >>> error = NotLeaderOrFollowerError(topic="orders", partition=3, broker=1)
    >>> error.code, error.name, error.retriable
    (6, 'NOT_LEADER_OR_FOLLOWER', True)
    """

    # Of the class, not of the instance; only UnknownCodeError learns them when it is made, hence no ClassVar.
    code: int
    name: str

    # What Kafka's own exception tree says about a code (KIP-1050 gave it its present shape). Each is set by
    # the base class below that stands for it, so a flag and an `except` clause cannot disagree.
    retriable: ClassVar[bool] = False
    refresh_retriable: ClassVar[bool] = False
    invalid_metadata: ClassVar[bool] = False
    application_recoverable: ClassVar[bool] = False
    invalid_configuration: ClassVar[bool] = False
    authorization: ClassVar[bool] = False
    authentication: ClassVar[bool] = False

    # What Kafka's 4.x client does, where its tree does not say it: see AbortableError and FatalError.
    abortable: ClassVar[bool] = False
    fatal: ClassVar[bool] = False

    def __init_subclass__(cls, *, code: int | None = None, name: str | None = None) -> None:
        """Enter a class that names its code into the table; the kinds of errors name none."""
        super().__init_subclass__()
        if code is None or name is None:
            return
        if code in _registry:
            raise TypeError(f"error code {code} already belongs to {_registry[code].__name__}")
        cls.code = code
        cls.name = name
        _registry[code] = cls

    def __init__(
        self,
        message: str | None = None,
        *,
        topic: str | None = None,
        partition: int | None = None,
        broker: int | None = None,
        detail: str | None = None,
    ) -> None:
        """`message` is the broker's own, where the response has one; the rest says where it happened.

        `detail` is what the client knows beside it, in whole sentences.
        """
        if not hasattr(self, "code"):
            raise TypeError(f"{type(self).__name__} stands for many codes and cannot be raised itself")
        # `args` must rebuild the error: pickle and copy call the class with them, then restore __dict__.
        super().__init__(*(() if message is None else (message,)))
        self.message = message
        self.topic = topic
        self.partition = partition
        self.broker = broker
        self.detail = detail

    def __str__(self) -> str:
        text = f"{self.name}{self._where()}: {self._what()}"
        return text if self.detail is None else f"{text} {self.detail}"

    def __repr__(self) -> str:
        known = {
            "topic": self.topic,
            "partition": self.partition,
            "broker": self.broker,
            "detail": self.detail,
        }
        fields = [f"{name}={value!r}" for name, value in known.items() if value is not None]
        return f"{type(self).__name__}({', '.join([*map(repr, self.args), *fields])})"

    def _where(self) -> str:
        places = []
        if self.topic is not None:
            places.append(f"topic {self.topic}")
        if self.partition is not None:
            places.append(f"partition {self.partition}")
        if self.broker is not None:
            places.append(f"broker {self.broker}")
        return f" ({', '.join(places)})" if places else ""

    def _what(self) -> str:
        # Under `python -OO` there are no docstrings, and the name has to do.
        meaning = " ".join((type(self).__doc__ or "The broker responded with this error.").split())
        # Some say nothing with an empty text.
        return f"{meaning} The broker says: {self.message}" if self.message else meaning


# Kinds of errors, for `except` clauses. The first six are Kafka's own.


class RetriableError(BrokerError):
    """The same request may succeed later."""

    retriable = True


class RefreshRetriableError(RetriableError):
    """The same request may succeed after the metadata or the coordinator has been looked up again."""

    refresh_retriable = True


class InvalidMetadataError(RefreshRetriableError):
    """The client's picture of the cluster is out of date and must be fetched anew before the next try."""

    invalid_metadata = True


class ApplicationRecoverableError(BrokerError):
    """The producer or member that got it has lost its place; the application can go on with a new one."""

    application_recoverable = True


class MisconfigurationError(BrokerError):
    """No retry helps: a setting, a permission or the request itself has to change."""

    invalid_configuration = True


class AuthorizationError(MisconfigurationError):
    """The principal is known but may not do this; an ACL is missing."""

    authorization = True


class AbortableError(BrokerError):
    """The transaction has to be aborted; the producer can then begin another.

    Kafka's tree has one code for this (TRANSACTION_ABORTABLE, KIP-890). The others are those that the 4.x
    transactional producer names and meets with its abortable state. A code that it does not name aborts in the
    response to Produce and is fatal in that of a coordinator: no flag could say both.
    """

    abortable = True


class FatalError(BrokerError):
    """The producer or the group member that got it cannot go on.

    Not in Kafka's tree; its client decides per request. The rule here: Kafka's 4.x client names the code and
    gives up the producer, or the membership, on at least one request. Where requests differ, the worse case
    counts: a client that starts anew too early loses time, one that goes on too long loses records. Two codes are
    abortable as well (GROUP_AUTHORIZATION_FAILED, FENCED_INSTANCE_ID): the producer can still abort, and
    should, before the membership is given up.
    """

    fatal = True


class AuthenticationError(MisconfigurationError, FatalError):
    """The broker does not accept who the client says it is; the connection is of no use."""

    authentication = True


# The codes of Kafka 4.3, in their order. 0 is NONE, which is no error and has no class.


class UnknownServerError(BrokerError, code=-1, name="UNKNOWN_SERVER_ERROR"):
    """The broker failed in a way it has no code for; its log has the details."""


class OffsetOutOfRangeError(BrokerError, code=1, name="OFFSET_OUT_OF_RANGE"):
    """The partition does not hold this offset (any more, or yet); seek, or set an offset reset policy."""


class CorruptMessageError(RetriableError, code=2, name="CORRUPT_MESSAGE"):
    """The records are damaged: their checksum, size or layout is wrong."""


class UnknownTopicOrPartitionError(InvalidMetadataError, code=3, name="UNKNOWN_TOPIC_OR_PARTITION"):
    """The broker has no such topic or partition; check the name, or wait if it was created a moment ago."""


class NoSuchPartitionError(UnknownTopicOrPartitionError, ValueError):
    """A partition was named that its topic does not have, as far as the client knows.

    `partition` is the one, `partitions` how many the topic has. It has Kafka's code, but does not come from a broker.
    """

    def __init__(
        self,
        message: str | None = None,
        *,
        topic: str | None = None,
        partition: int | None = None,
        partitions: int = 0,
        detail: str | None = None,
    ) -> None:
        """All of it by keyword; `message` is for pickle."""
        super().__init__(message, topic=topic, partition=partition, detail=detail)
        self.partitions = partitions

    def __str__(self) -> str:
        text = (
            f"there is no partition {self.partition} of topic {self.topic!r}, which has partitions 0 to "
            f"{self.partitions - 1}"
        )
        return text if self.detail is None else f"{text}. {self.detail}"


class InvalidFetchSizeError(BrokerError, code=4, name="INVALID_FETCH_SIZE"):
    """The fetch requested a number of bytes that makes no sense."""


class LeaderNotAvailableError(InvalidMetadataError, code=5, name="LEADER_NOT_AVAILABLE"):
    """The partition has no leader at the moment; an election is due or all its replicas are down."""


class NotLeaderOrFollowerError(InvalidMetadataError, code=6, name="NOT_LEADER_OR_FOLLOWER"):
    """This broker does not lead (or replicate) the partition; the metadata is stale."""


class RequestTimedOutError(RetriableError, code=7, name="REQUEST_TIMED_OUT"):
    """The broker could not finish within the request's timeout; whether it took effect is unknown."""


class BrokerNotAvailableError(BrokerError, code=8, name="BROKER_NOT_AVAILABLE"):
    """The broker that is needed is not up."""


class ReplicaNotAvailableError(InvalidMetadataError, code=9, name="REPLICA_NOT_AVAILABLE"):
    """A replica that should be on this broker is not there (yet)."""


class MessageTooLargeError(BrokerError, code=10, name="MESSAGE_TOO_LARGE"):
    """The batch exceeds what the topic takes; send smaller batches or raise the topic's max.message.bytes."""


class StaleControllerEpochError(BrokerError, code=11, name="STALE_CONTROLLER_EPOCH"):
    """The controller that sent this has been replaced by a newer one."""


class OffsetMetadataTooLargeError(BrokerError, code=12, name="OFFSET_METADATA_TOO_LARGE"):
    """The text committed with the offset is too long; shorten it or raise offset.metadata.max.bytes."""


class NetworkError(InvalidMetadataError, code=13, name="NETWORK_EXCEPTION"):
    """The connection was lost before the response came; whether the request took effect is unknown."""


class CoordinatorLoadInProgressError(RetriableError, code=14, name="COORDINATOR_LOAD_IN_PROGRESS"):
    """The coordinator has just taken over and is still reading its state; it will be ready soon."""


class CoordinatorNotAvailableError(RefreshRetriableError, code=15, name="COORDINATOR_NOT_AVAILABLE"):
    """No coordinator serves this group or transactional id at the moment."""


class NotCoordinatorError(RefreshRetriableError, code=16, name="NOT_COORDINATOR"):
    """The group or transactional id has its coordinator on another broker; look it up again."""


class InvalidTopicError(MisconfigurationError, code=17, name="INVALID_TOPIC_EXCEPTION"):
    """The topic's name is not allowed, or the topic is internal; use letters, digits, '.', '_' and '-'."""


class RecordListTooLargeError(MisconfigurationError, code=18, name="RECORD_LIST_TOO_LARGE"):
    """The batch is larger than a log segment of the topic; send smaller batches or raise segment.bytes."""


class NotEnoughReplicasError(RetriableError, code=19, name="NOT_ENOUGH_REPLICAS"):
    """Fewer replicas are in sync than min.insync.replicas demands; nothing was written."""


class NotEnoughReplicasAfterAppendError(RetriableError, code=20, name="NOT_ENOUGH_REPLICAS_AFTER_APPEND"):
    """The leader wrote the records, then too few replicas were in sync; a retry may write them twice."""


class InvalidRequiredAcksError(MisconfigurationError, code=21, name="INVALID_REQUIRED_ACKS"):
    """The acks setting must be 0, 1 or all (-1)."""


class IllegalGenerationError(ApplicationRecoverableError, AbortableError, code=22, name="ILLEGAL_GENERATION"):
    """The group has rebalanced since; the member must join again and its old assignment is void."""


class InconsistentGroupProtocolError(FatalError, code=23, name="INCONSISTENT_GROUP_PROTOCOL"):
    """The member has no assignor in common with its group; align partition.assignment.strategy."""


class InvalidGroupIdError(FatalError, code=24, name="INVALID_GROUP_ID"):
    """The group id is empty or not of the kind that this request needs; set group.id."""


class UnknownMemberIdError(ApplicationRecoverableError, AbortableError, code=25, name="UNKNOWN_MEMBER_ID"):
    """The coordinator does not know this member (any more), often after missed heartbeats; join again."""


class InvalidSessionTimeoutError(FatalError, code=26, name="INVALID_SESSION_TIMEOUT"):
    """session.timeout.ms is outside what the broker allows (group.min and group.max.session.timeout.ms)."""


class RebalanceInProgressError(BrokerError, code=27, name="REBALANCE_IN_PROGRESS"):
    """The group is rebalancing; the member has to join again before it goes on."""


class InvalidCommitOffsetSizeError(BrokerError, code=28, name="INVALID_COMMIT_OFFSET_SIZE"):
    """The commit does not fit into the offsets topic; commit fewer partitions or less metadata."""


class TopicAuthorizationFailedError(
    AuthorizationError, AbortableError, code=29, name="TOPIC_AUTHORIZATION_FAILED"
):
    """The principal may not do this with the topic; grant it the operation on the topic."""


class GroupAuthorizationFailedError(
    AuthorizationError, AbortableError, FatalError, code=30, name="GROUP_AUTHORIZATION_FAILED"
):
    """The principal may not use this group; grant it READ (or DESCRIBE, DELETE) on the group."""


class ClusterAuthorizationFailedError(
    AuthorizationError, FatalError, code=31, name="CLUSTER_AUTHORIZATION_FAILED"
):
    """The principal may not do this to the cluster; grant it the operation on the cluster."""


class InvalidTimestampError(BrokerError, code=32, name="INVALID_TIMESTAMP"):
    """A record's timestamp is too far off the broker's clock; see message.timestamp.*.max.ms."""


class UnsupportedSaslMechanismError(AuthenticationError, code=33, name="UNSUPPORTED_SASL_MECHANISM"):
    """The broker has not enabled this SASL mechanism; choose one that it offers."""


class IllegalSaslStateError(AuthenticationError, code=34, name="ILLEGAL_SASL_STATE"):
    """A request came at the wrong moment of the SASL exchange."""


class UnsupportedVersionError(MisconfigurationError, FatalError, code=35, name="UNSUPPORTED_VERSION"):
    """The broker does not serve this version of the request, or lacks the feature; upgrade it."""


class TopicAlreadyExistsError(BrokerError, code=36, name="TOPIC_ALREADY_EXISTS"):
    """There is a topic of that name already."""


class InvalidPartitionsError(BrokerError, code=37, name="INVALID_PARTITIONS"):
    """The number of partitions is not possible; it must be positive and can only grow."""


class InvalidReplicationFactorError(MisconfigurationError, code=38, name="INVALID_REPLICATION_FACTOR"):
    """The replication factor must lie between 1 and the number of available brokers."""


class InvalidReplicaAssignmentError(BrokerError, code=39, name="INVALID_REPLICA_ASSIGNMENT"):
    """The replicas were placed by hand in a way that does not work: unknown, repeated or missing brokers."""


class InvalidConfigError(MisconfigurationError, code=40, name="INVALID_CONFIG"):
    """A configuration name or value was refused."""


class NotControllerError(RetriableError, code=41, name="NOT_CONTROLLER"):
    """Only the active controller can do this, and the request did not reach it; look it up again."""


class InvalidRequestError(FatalError, code=42, name="INVALID_REQUEST"):
    """The request contradicts itself or lacks something; the broker's message and log say what."""


class UnsupportedForMessageFormatError(
    MisconfigurationError, FatalError, code=43, name="UNSUPPORTED_FOR_MESSAGE_FORMAT"
):
    """The topic's old record format cannot hold this; upgrade the format."""


class PolicyViolationError(BrokerError, code=44, name="POLICY_VIOLATION"):
    """The request is valid but a policy that the operators installed forbids it."""


class OutOfOrderSequenceNumberError(AbortableError, code=45, name="OUT_OF_ORDER_SEQUENCE_NUMBER"):
    """The broker expected another sequence number from this producer: an earlier batch is missing."""


class DuplicateSequenceNumberError(BrokerError, code=46, name="DUPLICATE_SEQUENCE_NUMBER"):
    """The broker has these records already, from an earlier try; there is nothing to send again."""


class InvalidProducerEpochError(
    ApplicationRecoverableError, FatalError, code=47, name="INVALID_PRODUCER_EPOCH"
):
    """The producer's epoch is outdated: another producer took over its id, or its transaction timed out."""


class InvalidTxnStateError(FatalError, code=48, name="INVALID_TXN_STATE"):
    """The transaction is not in a state in which this can be done."""


class InvalidProducerIdMappingError(
    ApplicationRecoverableError, FatalError, code=49, name="INVALID_PRODUCER_ID_MAPPING"
):
    """The transactional id has another producer id by now, or has expired; initialize a new producer."""


class InvalidTransactionTimeoutError(BrokerError, code=50, name="INVALID_TRANSACTION_TIMEOUT"):
    """transaction.timeout.ms is above the broker's transaction.max.timeout.ms; lower it."""


class ConcurrentTransactionsError(RetriableError, code=51, name="CONCURRENT_TRANSACTIONS"):
    """The previous transaction of this transactional id is still being completed; try again shortly."""


class TransactionCoordinatorFencedError(BrokerError, code=52, name="TRANSACTION_COORDINATOR_FENCED"):
    """A transaction marker came from a coordinator that has been replaced."""


class TransactionalIdAuthorizationFailedError(
    AuthorizationError, FatalError, code=53, name="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
):
    """The principal may not use this transactional id; grant it WRITE on the transactional id."""


class SecurityDisabledError(BrokerError, code=54, name="SECURITY_DISABLED"):
    """The brokers run without an authorizer, so there are no ACLs to read or change."""


class OperationNotAttemptedError(AbortableError, code=55, name="OPERATION_NOT_ATTEMPTED"):
    """The broker skipped this part because another part of the same request failed."""


class KafkaStorageError(InvalidMetadataError, code=56, name="KAFKA_STORAGE_ERROR"):
    """The broker cannot read or write the disk that holds this partition."""


class LogDirNotFoundError(BrokerError, code=57, name="LOG_DIR_NOT_FOUND"):
    """The broker has no such log directory; it must be one of its log.dirs."""


class SaslAuthenticationFailedError(AuthenticationError, code=58, name="SASL_AUTHENTICATION_FAILED"):
    """The broker refused the credentials; check user, password or token, and the mechanism."""


class UnknownProducerIdError(OutOfOrderSequenceNumberError, code=59, name="UNKNOWN_PRODUCER_ID"):
    """The broker has forgotten this producer: its last records are gone or it was silent for too long."""


class ReassignmentInProgressError(BrokerError, code=60, name="REASSIGNMENT_IN_PROGRESS"):
    """The partition is being moved to other brokers; wait until that is done, or cancel it."""


class DelegationTokenAuthDisabledError(BrokerError, code=61, name="DELEGATION_TOKEN_AUTH_DISABLED"):
    """The brokers have no delegation token secret key and so issue no tokens."""


class DelegationTokenNotFoundError(BrokerError, code=62, name="DELEGATION_TOKEN_NOT_FOUND"):
    """The brokers know no such delegation token."""


class DelegationTokenOwnerMismatchError(BrokerError, code=63, name="DELEGATION_TOKEN_OWNER_MISMATCH"):
    """Only the token's owner and its renewers may do this."""


class DelegationTokenRequestNotAllowedError(
    BrokerError, code=64, name="DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"
):
    """Tokens are given only to clients that authenticated themselves, and not by a token."""


class DelegationTokenAuthorizationFailedError(
    AuthorizationError, code=65, name="DELEGATION_TOKEN_AUTHORIZATION_FAILED"
):
    """The principal may not see or manage this delegation token."""


class DelegationTokenExpiredError(BrokerError, code=66, name="DELEGATION_TOKEN_EXPIRED"):
    """The delegation token is past its expiry; create a new one."""


class InvalidPrincipalTypeError(BrokerError, code=67, name="INVALID_PRINCIPAL_TYPE"):
    """Principals of this type cannot be used here; 'User' always can."""


class NonEmptyGroupError(BrokerError, code=68, name="NON_EMPTY_GROUP"):
    """The group still has members; stop them first."""


class GroupIdNotFoundError(BrokerError, code=69, name="GROUP_ID_NOT_FOUND"):
    """There is no group of that name."""


class FetchSessionIdNotFoundError(RetriableError, code=70, name="FETCH_SESSION_ID_NOT_FOUND"):
    """The broker has dropped this fetch session to make room; the client opens another."""


class InvalidFetchSessionEpochError(RetriableError, code=71, name="INVALID_FETCH_SESSION_EPOCH"):
    """Client and broker disagree on where the fetch session stands; the client opens another."""


class ListenerNotFoundError(InvalidMetadataError, code=72, name="LISTENER_NOT_FOUND"):
    """The partition's leader has no listener of the name that this client connected through."""


class TopicDeletionDisabledError(BrokerError, code=73, name="TOPIC_DELETION_DISABLED"):
    """The brokers do not delete topics; set delete.topic.enable there."""


class FencedLeaderEpochError(InvalidMetadataError, code=74, name="FENCED_LEADER_EPOCH"):
    """The request names an older leader epoch than the broker's: the leadership has changed."""


class UnknownLeaderEpochError(RetriableError, code=75, name="UNKNOWN_LEADER_EPOCH"):
    """The request names a newer leader epoch than the broker has heard of; it will catch up."""


class UnsupportedCompressionTypeError(BrokerError, code=76, name="UNSUPPORTED_COMPRESSION_TYPE"):
    """The codec cannot be used with this version of the request; choose another compression.type."""


class StaleBrokerEpochError(BrokerError, code=77, name="STALE_BROKER_EPOCH"):
    """The broker that sent this has been registered anew since."""


class OffsetNotAvailableError(RetriableError, code=78, name="OFFSET_NOT_AVAILABLE"):
    """A leader just elected does not know yet how far the log is committed; it will in a moment."""


class MemberIdRequiredError(BrokerError, code=79, name="MEMBER_ID_REQUIRED"):
    """The coordinator has handed out a member id; join again with it."""


class PreferredLeaderNotAvailableError(InvalidMetadataError, code=80, name="PREFERRED_LEADER_NOT_AVAILABLE"):
    """The replica that should lead the partition is down or not in sync."""


class GroupMaxSizeReachedError(FatalError, code=81, name="GROUP_MAX_SIZE_REACHED"):
    """The group is full; raise the broker's limit on its size or run fewer members."""


class FencedInstanceIdError(
    ApplicationRecoverableError, AbortableError, FatalError, code=82, name="FENCED_INSTANCE_ID"
):
    """Another member uses the same group.instance.id and has taken this one's place; make the ids unique."""


class EligibleLeadersNotAvailableError(InvalidMetadataError, code=83, name="ELIGIBLE_LEADERS_NOT_AVAILABLE"):
    """No replica that may lead the partition is up."""


class ElectionNotNeededError(InvalidMetadataError, code=84, name="ELECTION_NOT_NEEDED"):
    """The partition already has the leader that the election would give it."""


class NoReassignmentInProgressError(BrokerError, code=85, name="NO_REASSIGNMENT_IN_PROGRESS"):
    """There is no reassignment of this partition to cancel."""


class GroupSubscribedToTopicError(BrokerError, code=86, name="GROUP_SUBSCRIBED_TO_TOPIC"):
    """The group's members still consume this topic, so its offsets cannot be deleted."""


class InvalidRecordError(MisconfigurationError, code=87, name="INVALID_RECORD"):
    """The broker refused a record, such as one without a key in a compacted topic; its message says which."""


class UnstableOffsetCommitError(RetriableError, code=88, name="UNSTABLE_OFFSET_COMMIT"):
    """A transaction that commits these offsets is still open; fetch them again when it has ended."""


class ThrottlingQuotaExceededError(RetriableError, code=89, name="THROTTLING_QUOTA_EXCEEDED"):
    """A quota is used up for now; the response says how long to wait."""


class ProducerFencedError(ApplicationRecoverableError, FatalError, code=90, name="PRODUCER_FENCED"):
    """A newer producer uses the same transactional id; this one must stop."""


class ResourceNotFoundError(BrokerError, code=91, name="RESOURCE_NOT_FOUND"):
    """What the request names does not exist."""


class DuplicateResourceError(BrokerError, code=92, name="DUPLICATE_RESOURCE"):
    """The request names the same thing twice, or it exists already."""


class UnacceptableCredentialError(BrokerError, code=93, name="UNACCEPTABLE_CREDENTIAL"):
    """The new credential was refused: a name is empty or the iterations are out of range."""


class InconsistentVoterSetError(BrokerError, code=94, name="INCONSISTENT_VOTER_SET"):
    """A controller or its voters are not among those that the receiver has."""


class InvalidUpdateVersionError(BrokerError, code=95, name="INVALID_UPDATE_VERSION"):
    """The update was made against another version of the data; read it again first."""


class FeatureUpdateFailedError(BrokerError, code=96, name="FEATURE_UPDATE_FAILED"):
    """The cluster's feature levels could not be changed to these."""


class PrincipalDeserializationFailureError(BrokerError, code=97, name="PRINCIPAL_DESERIALIZATION_FAILURE"):
    """The controller cannot read the principal in a forwarded request; the brokers' setups differ."""


class SnapshotNotFoundError(BrokerError, code=98, name="SNAPSHOT_NOT_FOUND"):
    """The metadata snapshot that was requested is gone."""


class PositionOutOfRangeError(BrokerError, code=99, name="POSITION_OUT_OF_RANGE"):
    """The position lies outside the metadata snapshot."""


class UnknownTopicIdError(InvalidMetadataError, code=100, name="UNKNOWN_TOPIC_ID"):
    """The broker has no topic with this id; the topic may have been deleted and created again."""


class DuplicateBrokerRegistrationError(BrokerError, code=101, name="DUPLICATE_BROKER_REGISTRATION"):
    """A live broker already has this node id; give each broker its own."""


class BrokerIdNotRegisteredError(BrokerError, code=102, name="BROKER_ID_NOT_REGISTERED"):
    """No broker with this node id is registered."""


class InconsistentTopicIdError(InvalidMetadataError, code=103, name="INCONSISTENT_TOPIC_ID"):
    """The topic has another id on this broker's log than in the request."""


class InconsistentClusterIdError(BrokerError, code=104, name="INCONSISTENT_CLUSTER_ID"):
    """The request is meant for another cluster; check the addresses."""


class TransactionalIdNotFoundError(BrokerError, code=105, name="TRANSACTIONAL_ID_NOT_FOUND"):
    """The coordinator knows no such transactional id."""


class FetchSessionTopicIdError(RetriableError, code=106, name="FETCH_SESSION_TOPIC_ID_ERROR"):
    """The fetch session mixed topic names and topic ids; the client opens another."""


class IneligibleReplicaError(BrokerError, code=107, name="INELIGIBLE_REPLICA"):
    """The new in-sync set contains a replica that may not be in it, such as one that is shutting down."""


class NewLeaderElectedError(BrokerError, code=108, name="NEW_LEADER_ELECTED"):
    """The change to the partition was made, and it gave the partition another leader."""


class OffsetMovedToTieredStorageError(BrokerError, code=109, name="OFFSET_MOVED_TO_TIERED_STORAGE"):
    """The offset is no longer on the leader's disk but in tiered storage."""


class FencedMemberEpochError(BrokerError, code=110, name="FENCED_MEMBER_EPOCH"):
    """The coordinator has given this member up; it must drop its partitions and join again."""


class UnreleasedInstanceIdError(FatalError, code=111, name="UNRELEASED_INSTANCE_ID"):
    """Another live member still holds this group.instance.id; stop it, or use another id."""


class UnsupportedAssignorError(FatalError, code=112, name="UNSUPPORTED_ASSIGNOR"):
    """The coordinator has no such assignor; change group.remote.assignor."""


class StaleMemberEpochError(BrokerError, code=113, name="STALE_MEMBER_EPOCH"):
    """The member used an outdated epoch; the next heartbeat brings the current one."""


class MismatchedEndpointTypeError(BrokerError, code=114, name="MISMATCHED_ENDPOINT_TYPE"):
    """The request went to a controller instead of a broker, or the other way round; check the addresses."""


class UnsupportedEndpointTypeError(BrokerError, code=115, name="UNSUPPORTED_ENDPOINT_TYPE"):
    """The receiver does not serve this kind of endpoint."""


class UnknownControllerIdError(BrokerError, code=116, name="UNKNOWN_CONTROLLER_ID"):
    """No controller has this id."""


class UnknownSubscriptionIdError(BrokerError, code=117, name="UNKNOWN_SUBSCRIPTION_ID"):
    """The broker's telemetry subscription has changed; fetch it again before the next push."""


class TelemetryTooLargeError(BrokerError, code=118, name="TELEMETRY_TOO_LARGE"):
    """The client's metrics are more than the broker takes in one push."""


class InvalidRegistrationError(BrokerError, code=119, name="INVALID_REGISTRATION"):
    """The controller refused the broker's registration."""


class TransactionAbortableError(AbortableError, code=120, name="TRANSACTION_ABORTABLE"):
    """The transaction cannot be committed any more; abort it and begin another."""


class InvalidRecordStateError(BrokerError, code=121, name="INVALID_RECORD_STATE"):
    """The record cannot be acknowledged: its lock has expired, or another member has it."""


class ShareSessionNotFoundError(RetriableError, code=122, name="SHARE_SESSION_NOT_FOUND"):
    """The broker has no such share session; the client opens another."""


class InvalidShareSessionEpochError(RetriableError, code=123, name="INVALID_SHARE_SESSION_EPOCH"):
    """Client and broker disagree on where the share session stands; the client opens another."""


class FencedStateEpochError(BrokerError, code=124, name="FENCED_STATE_EPOCH"):
    """The share group's state has moved on to another epoch."""


class InvalidVoterKeyError(BrokerError, code=125, name="INVALID_VOTER_KEY"):
    """The request was meant for a controller voter with another directory id."""


class DuplicateVoterError(BrokerError, code=126, name="DUPLICATE_VOTER"):
    """The controller is a voter already."""


class VoterNotFoundError(BrokerError, code=127, name="VOTER_NOT_FOUND"):
    """The controller is not among the voters."""


class InvalidRegularExpressionError(FatalError, code=128, name="INVALID_REGULAR_EXPRESSION"):
    """The broker cannot read the subscription's pattern; brokers use RE2 syntax."""


class RebootstrapRequiredError(BrokerError, code=129, name="REBOOTSTRAP_REQUIRED"):
    """The brokers require the client to start over from its bootstrap servers."""


class StreamsInvalidTopologyError(BrokerError, code=130, name="STREAMS_INVALID_TOPOLOGY"):
    """The streams group's topology is not valid."""


class StreamsInvalidTopologyEpochError(BrokerError, code=131, name="STREAMS_INVALID_TOPOLOGY_EPOCH"):
    """The topology's epoch is not one that the streams group can take."""


class StreamsTopologyFencedError(BrokerError, code=132, name="STREAMS_TOPOLOGY_FENCED"):
    """The streams group already runs a newer topology; upgrade this member."""


class ShareSessionLimitReachedError(RetriableError, code=133, name="SHARE_SESSION_LIMIT_REACHED"):
    """The broker has as many share sessions as it may; try again when one has closed."""


class UnknownCodeError(BrokerError):
    """The broker responded with an error code that this release does not know; a newer one may."""

    def __init__(
        self,
        code: int,
        message: str | None = None,
        *,
        topic: str | None = None,
        partition: int | None = None,
        broker: int | None = None,
    ) -> None:
        """As `BrokerError`, but the number comes with the instance."""
        self.code = code
        self.name = f"ERROR_CODE_{code}"
        super().__init__(message, topic=topic, partition=partition, broker=broker)
        self.args = (code, *self.args)


ERRORS: Mapping[int, type[BrokerError]] = MappingProxyType(_registry)


def error_for(code: int) -> type[BrokerError] | None:
    """The class for `code`, to look at its flags; None for 0, `UnknownCodeError` if it is not in `ERRORS`."""
    return None if code == 0 else ERRORS.get(code, UnknownCodeError)


def from_code(
    code: int,
    message: str | None = None,
    *,
    topic: str | None = None,
    partition: int | None = None,
    broker: int | None = None,
) -> BrokerError | None:
    """The error for a response's code, ready to raise or to hand on; None for 0.

    >>> str(from_code(3, topic="ordres"))[:47]
    'UNKNOWN_TOPIC_OR_PARTITION (topic ordres): The '
    """
    if code == 0:
        return None
    known = ERRORS.get(code)
    if known is None:
        return UnknownCodeError(code, message, topic=topic, partition=partition, broker=broker)
    return known(message, topic=topic, partition=partition, broker=broker)


def raise_for_code(
    code: int,
    message: str | None = None,
    *,
    topic: str | None = None,
    partition: int | None = None,
    broker: int | None = None,
) -> None:
    """Raise the error for a response's code; return for 0."""
    error = from_code(code, message, topic=topic, partition=partition, broker=broker)
    if error is not None:
        raise error
