"""The error tree against Kafka's own table of codes, and what an error tells and survives.

The table below holds facts of Kafka 4.3 (code, name, and what Kafka's exception tree says of it), so that the
classes are checked against something that was not written together with them.
"""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla import errors
from ottla.errors import (
    ERRORS,
    BrokerError,
    DeserializationError,
    KafkaError,
    MissingExtraError,
    NotLeaderOrFollowerError,
    SerdeError,
    SerializationError,
    UnknownCodeError,
    UnknownTopicOrPartitionError,
    error_for,
    from_code,
    raise_for_code,
)

KAFKA_4_3 = """
-1 UNKNOWN_SERVER_ERROR
0 NONE
1 OFFSET_OUT_OF_RANGE
2 CORRUPT_MESSAGE retriable
3 UNKNOWN_TOPIC_OR_PARTITION retriable refresh metadata
4 INVALID_FETCH_SIZE
5 LEADER_NOT_AVAILABLE retriable refresh metadata
6 NOT_LEADER_OR_FOLLOWER retriable refresh metadata
7 REQUEST_TIMED_OUT retriable
8 BROKER_NOT_AVAILABLE
9 REPLICA_NOT_AVAILABLE retriable refresh metadata
10 MESSAGE_TOO_LARGE
11 STALE_CONTROLLER_EPOCH
12 OFFSET_METADATA_TOO_LARGE
13 NETWORK_EXCEPTION retriable refresh metadata
14 COORDINATOR_LOAD_IN_PROGRESS retriable
15 COORDINATOR_NOT_AVAILABLE retriable refresh
16 NOT_COORDINATOR retriable refresh
17 INVALID_TOPIC_EXCEPTION configuration
18 RECORD_LIST_TOO_LARGE configuration
19 NOT_ENOUGH_REPLICAS retriable
20 NOT_ENOUGH_REPLICAS_AFTER_APPEND retriable
21 INVALID_REQUIRED_ACKS configuration
22 ILLEGAL_GENERATION recoverable
23 INCONSISTENT_GROUP_PROTOCOL
24 INVALID_GROUP_ID
25 UNKNOWN_MEMBER_ID recoverable
26 INVALID_SESSION_TIMEOUT
27 REBALANCE_IN_PROGRESS
28 INVALID_COMMIT_OFFSET_SIZE
29 TOPIC_AUTHORIZATION_FAILED configuration authorization
30 GROUP_AUTHORIZATION_FAILED configuration authorization
31 CLUSTER_AUTHORIZATION_FAILED configuration authorization
32 INVALID_TIMESTAMP
33 UNSUPPORTED_SASL_MECHANISM configuration authentication
34 ILLEGAL_SASL_STATE configuration authentication
35 UNSUPPORTED_VERSION configuration
36 TOPIC_ALREADY_EXISTS
37 INVALID_PARTITIONS
38 INVALID_REPLICATION_FACTOR configuration
39 INVALID_REPLICA_ASSIGNMENT
40 INVALID_CONFIG configuration
41 NOT_CONTROLLER retriable
42 INVALID_REQUEST
43 UNSUPPORTED_FOR_MESSAGE_FORMAT configuration
44 POLICY_VIOLATION
45 OUT_OF_ORDER_SEQUENCE_NUMBER
46 DUPLICATE_SEQUENCE_NUMBER
47 INVALID_PRODUCER_EPOCH recoverable
48 INVALID_TXN_STATE
49 INVALID_PRODUCER_ID_MAPPING recoverable
50 INVALID_TRANSACTION_TIMEOUT
51 CONCURRENT_TRANSACTIONS retriable
52 TRANSACTION_COORDINATOR_FENCED
53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED configuration authorization
54 SECURITY_DISABLED
55 OPERATION_NOT_ATTEMPTED
56 KAFKA_STORAGE_ERROR retriable refresh metadata
57 LOG_DIR_NOT_FOUND
58 SASL_AUTHENTICATION_FAILED configuration authentication
59 UNKNOWN_PRODUCER_ID
60 REASSIGNMENT_IN_PROGRESS
61 DELEGATION_TOKEN_AUTH_DISABLED
62 DELEGATION_TOKEN_NOT_FOUND
63 DELEGATION_TOKEN_OWNER_MISMATCH
64 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
65 DELEGATION_TOKEN_AUTHORIZATION_FAILED configuration authorization
66 DELEGATION_TOKEN_EXPIRED
67 INVALID_PRINCIPAL_TYPE
68 NON_EMPTY_GROUP
69 GROUP_ID_NOT_FOUND
70 FETCH_SESSION_ID_NOT_FOUND retriable
71 INVALID_FETCH_SESSION_EPOCH retriable
72 LISTENER_NOT_FOUND retriable refresh metadata
73 TOPIC_DELETION_DISABLED
74 FENCED_LEADER_EPOCH retriable refresh metadata
75 UNKNOWN_LEADER_EPOCH retriable
76 UNSUPPORTED_COMPRESSION_TYPE
77 STALE_BROKER_EPOCH
78 OFFSET_NOT_AVAILABLE retriable
79 MEMBER_ID_REQUIRED
80 PREFERRED_LEADER_NOT_AVAILABLE retriable refresh metadata
81 GROUP_MAX_SIZE_REACHED
82 FENCED_INSTANCE_ID recoverable
83 ELIGIBLE_LEADERS_NOT_AVAILABLE retriable refresh metadata
84 ELECTION_NOT_NEEDED retriable refresh metadata
85 NO_REASSIGNMENT_IN_PROGRESS
86 GROUP_SUBSCRIBED_TO_TOPIC
87 INVALID_RECORD configuration
88 UNSTABLE_OFFSET_COMMIT retriable
89 THROTTLING_QUOTA_EXCEEDED retriable
90 PRODUCER_FENCED recoverable
91 RESOURCE_NOT_FOUND
92 DUPLICATE_RESOURCE
93 UNACCEPTABLE_CREDENTIAL
94 INCONSISTENT_VOTER_SET
95 INVALID_UPDATE_VERSION
96 FEATURE_UPDATE_FAILED
97 PRINCIPAL_DESERIALIZATION_FAILURE
98 SNAPSHOT_NOT_FOUND
99 POSITION_OUT_OF_RANGE
100 UNKNOWN_TOPIC_ID retriable refresh metadata
101 DUPLICATE_BROKER_REGISTRATION
102 BROKER_ID_NOT_REGISTERED
103 INCONSISTENT_TOPIC_ID retriable refresh metadata
104 INCONSISTENT_CLUSTER_ID
105 TRANSACTIONAL_ID_NOT_FOUND
106 FETCH_SESSION_TOPIC_ID_ERROR retriable
107 INELIGIBLE_REPLICA
108 NEW_LEADER_ELECTED
109 OFFSET_MOVED_TO_TIERED_STORAGE
110 FENCED_MEMBER_EPOCH
111 UNRELEASED_INSTANCE_ID
112 UNSUPPORTED_ASSIGNOR
113 STALE_MEMBER_EPOCH
114 MISMATCHED_ENDPOINT_TYPE
115 UNSUPPORTED_ENDPOINT_TYPE
116 UNKNOWN_CONTROLLER_ID
117 UNKNOWN_SUBSCRIPTION_ID
118 TELEMETRY_TOO_LARGE
119 INVALID_REGISTRATION
120 TRANSACTION_ABORTABLE
121 INVALID_RECORD_STATE
122 SHARE_SESSION_NOT_FOUND retriable
123 INVALID_SHARE_SESSION_EPOCH retriable
124 FENCED_STATE_EPOCH
125 INVALID_VOTER_KEY
126 DUPLICATE_VOTER
127 VOTER_NOT_FOUND
128 INVALID_REGULAR_EXPRESSION
129 REBOOTSTRAP_REQUIRED
130 STREAMS_INVALID_TOPOLOGY
131 STREAMS_INVALID_TOPOLOGY_EPOCH
132 STREAMS_TOPOLOGY_FENCED
133 SHARE_SESSION_LIMIT_REACHED retriable
"""

# The word for a flag in the table above, the class variable and the base class that stand for it.
FLAGS: dict[str, tuple[str, type[BrokerError]]] = {
    "retriable": ("retriable", errors.RetriableError),
    "refresh": ("refresh_retriable", errors.RefreshRetriableError),
    "metadata": ("invalid_metadata", errors.InvalidMetadataError),
    "configuration": ("invalid_configuration", errors.MisconfigurationError),
    "authorization": ("authorization", errors.AuthorizationError),
    "authentication": ("authentication", errors.AuthenticationError),
    "recoverable": ("application_recoverable", errors.ApplicationRecoverableError),
}

# What Kafka's 4.x client does, read from its transactional producer and its group membership.
ABORTABLE = {22, 25, 29, 30, 45, 55, 59, 82, 120}
FATAL_TO_A_PRODUCER = {31, 33, 34, 35, 43, 47, 48, 49, 53, 58, 90}
FATAL_TO_A_MEMBER = {23, 24, 26, 30, 42, 81, 82, 111, 112, 128}


def facts() -> dict[int, tuple[str, set[str]]]:
    rows = (line.split() for line in KAFKA_4_3.strip().splitlines())
    return {int(code): (name, set(flags)) for code, name, *flags in rows}


def kinds() -> list[type[BrokerError]]:
    """The classes that stand for many codes."""
    classes = [
        kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, BrokerError)
    ]
    single = {UnknownCodeError, errors.NoSuchPartitionError, *ERRORS.values()}
    return [kind for kind in classes if kind not in single]


def camel_case(name: str) -> str:
    words = name.removesuffix("_EXCEPTION").removesuffix("_ERROR").split("_")
    return "".join(word.capitalize() for word in words) + "Error"


def test_the_table_is_complete() -> None:
    assert len(facts()) == 135
    assert set(ERRORS) == set(facts()) - {0}
    assert facts()[0] == ("NONE", set())


@pytest.mark.parametrize("code", sorted(ERRORS))
def test_a_code_has_kafkas_name_and_flags(code: int) -> None:
    name, flags = facts()[code]
    error = ERRORS[code]
    assert (error.code, error.name, error.__name__) == (code, name, camel_case(name))
    assert {word for word, (flag, _) in FLAGS.items() if getattr(error, flag)} == flags
    assert {word for word, (_, kind) in FLAGS.items() if issubclass(error, kind)} == flags


def test_a_class_belongs_to_one_code_and_can_be_imported_by_its_name() -> None:
    assert len(set(ERRORS.values())) == len(ERRORS)
    for error in ERRORS.values():
        assert getattr(errors, error.__name__) is error


def test_abortable_and_fatal_are_what_kafkas_client_does() -> None:
    fatal = FATAL_TO_A_PRODUCER | FATAL_TO_A_MEMBER
    assert {code for code, error in ERRORS.items() if error.abortable} == ABORTABLE
    assert {code for code, error in ERRORS.items() if issubclass(error, errors.AbortableError)} == ABORTABLE
    assert {code for code, error in ERRORS.items() if error.fatal} == fatal
    assert {code for code, error in ERRORS.items() if issubclass(error, errors.FatalError)} == fatal


def test_what_can_be_retried_is_neither_abortable_nor_fatal() -> None:
    assert not [error for error in ERRORS.values() if error.retriable and (error.abortable or error.fatal)]


def test_the_docstring_of_every_code_is_one_short_sentence() -> None:
    for error in [*ERRORS.values(), UnknownCodeError]:
        assert error.__doc__ is not None
        assert error.__doc__.endswith(".")
        assert len(error.__doc__) <= 120
        assert "\n" not in error.__doc__


def test_a_code_cannot_be_taken_twice() -> None:
    with pytest.raises(TypeError, match="6 already belongs to NotLeaderOrFollowerError"):
        type("Usurper", (BrokerError,), {}, code=6, name="USURPER")
    assert ERRORS[6] is NotLeaderOrFollowerError


def test_the_table_is_read_only() -> None:
    with pytest.raises(TypeError):
        ERRORS[6] = UnknownCodeError  # type: ignore[index]


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_a_kind_of_errors_is_caught_and_never_raised(kind: type[BrokerError]) -> None:
    with pytest.raises(TypeError, match="stands for many codes"):
        kind()
    assert any(issubclass(error, kind) for error in ERRORS.values())


def test_the_text_has_the_name_the_place_the_sentence_and_the_brokers_words() -> None:
    error = NotLeaderOrFollowerError("moved away", topic="orders", partition=0, broker=2)
    assert str(error) == (
        "NOT_LEADER_OR_FOLLOWER (topic orders, partition 0, broker 2): "
        "This broker does not lead (or replicate) the partition; the metadata is stale. "
        "The broker says: moved away"
    )
    assert str(NotLeaderOrFollowerError()) == f"NOT_LEADER_OR_FOLLOWER: {NotLeaderOrFollowerError.__doc__}"
    # Kafka sends no words as an empty text in FindCoordinator.
    assert str(NotLeaderOrFollowerError("")) == str(NotLeaderOrFollowerError())


def test_the_text_does_without_docstrings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NotLeaderOrFollowerError, "__doc__", None)
    assert str(NotLeaderOrFollowerError()).startswith("NOT_LEADER_OR_FOLLOWER: ")


def test_zero_is_no_error() -> None:
    assert error_for(0) is None
    assert from_code(0, "ignored", topic="orders") is None
    raise_for_code(0)


@given(st.integers(min_value=-(2**15), max_value=2**15 - 1).filter(lambda code: code not in {0, *ERRORS}))
def test_an_unknown_code_keeps_its_number(code: int) -> None:
    assert error_for(code) is UnknownCodeError
    with pytest.raises(UnknownCodeError) as caught:
        raise_for_code(code, "who knows", topic="orders", broker=1)
    assert caught.value.code == code
    assert not caught.value.retriable
    assert f"ERROR_CODE_{code} (topic orders, broker 1): " in str(caught.value)
    assert str(caught.value).endswith("The broker says: who knows")


def test_a_known_code_is_raised_as_its_class() -> None:
    for code, error in ERRORS.items():
        assert error_for(code) is error
        with pytest.raises(error) as caught:
            raise_for_code(code, "text", topic="orders", partition=7, broker=3)
        context = caught.value
        assert (context.message, context.topic, context.partition, context.broker) == ("text", "orders", 7, 3)


def pickled(error: BrokerError) -> BrokerError:
    twin = pickle.loads(pickle.dumps(error))
    assert isinstance(twin, BrokerError)
    return twin


@pytest.mark.parametrize("copied", [pickled, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("message", [None, "text"])
def test_an_error_survives_being_copied(
    message: str | None, copied: Callable[[BrokerError], BrokerError]
) -> None:
    for code in [*ERRORS, 12345]:
        error = from_code(code, message, topic="orders", partition=7, broker=3)
        assert error is not None
        error.add_note("seen while testing")
        twin = copied(error)
        assert type(twin) is type(error)
        assert (str(twin), twin.args, vars(twin)) == (str(error), error.args, vars(error))
        assert (twin.code, twin.name) == (error.code, error.name)


@pytest.mark.parametrize("copied", [pickled, copy.copy, copy.deepcopy])
def test_what_the_client_adds_stands_behind_what_the_broker_said(
    copied: Callable[[BrokerError], BrokerError],
) -> None:
    error = UnknownTopicOrPartitionError("who knows", topic="orders", detail="The topic has 3 partitions.")
    for each in (error, copied(error)):
        assert str(each).endswith(" The broker says: who knows The topic has 3 partitions.")
    assert "broker says" not in str(UnknownTopicOrPartitionError(detail="It was deleted."))


SERDE_ERRORS = [
    SerializationError("no", topic="orders", field="key", expected="a str", received="int"),
    DeserializationError(
        "no",
        topic="orders",
        partition=3,
        offset=17,
        timestamp=5,
        headers=[("trace", None)],
        key=b"k",
        value=None,
        field="key",
        expected="a str",
    ),
]


@pytest.mark.parametrize(
    "copied", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy, copy.deepcopy]
)
@pytest.mark.parametrize("error", SERDE_ERRORS, ids=lambda error: type(error).__name__)
def test_a_serde_error_survives_being_copied(
    error: SerdeError, copied: Callable[[SerdeError], SerdeError]
) -> None:
    error.add_note("seen while testing")
    twin = copied(error)
    assert type(twin) is type(error)
    assert (str(twin), twin.args, vars(twin)) == ("no", ("no",), vars(error))


def test_a_serde_error_with_a_cause_that_cannot_be_pickled_can_be_pickled() -> None:
    error = SerializationError("no", topic="orders", field="key", expected="a str", received="int")
    error.__cause__ = ValueError(lambda: None)
    assert vars(pickle.loads(pickle.dumps(error))) == vars(error)


@pytest.mark.parametrize(("field", "data"), [("key", b"k"), ("value", b"v")])
def test_the_data_of_a_deserialization_error_is_that_of_its_field(field: str, data: bytes) -> None:
    error = DeserializationError(
        "no",
        topic="orders",
        partition=3,
        offset=17,
        timestamp=5,
        headers=(),
        key=b"k",
        value=b"v",
        field=field,
        expected="a str",
    )
    assert error.data == data


CLIENT_ERRORS: list[KafkaError] = [
    errors.ConnectionFailedError("no"),
    errors.NoBrokersError("no"),
    errors.UnknownBrokerError("no"),
    errors.UnsupportedApiError("no"),
    errors.RequestTimeoutError("no"),
    errors.ApiTimeoutError("no"),
    errors.ClientClosedError("no"),
    errors.ForkedError("no"),
    errors.BufferFullError("no", limit="buffer_memory"),
    errors.DeliveryError("no", failed=3),
    errors.DeliveryTimeoutError("no", may_be_stored=True),
    errors.AbortedError("no", may_be_stored=True),
    errors.DataLossError("no", topic="orders", partition=3, wanted_offset=17, new_offset=20),
]


@pytest.mark.parametrize(
    "copied", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy, copy.deepcopy]
)
@pytest.mark.parametrize("error", CLIENT_ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_of_the_client_survives_being_copied(
    error: KafkaError, copied: Callable[[KafkaError], KafkaError]
) -> None:
    twin = copied(error)
    assert type(twin) is type(error)
    assert (str(twin), twin.args, vars(twin)) == ("no", ("no",), vars(error))


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (errors.ConnectionFailedError, ConnectionError),
        (errors.NoBrokersError, ConnectionError),
        (errors.RequestTimeoutError, TimeoutError),
        (errors.ApiTimeoutError, TimeoutError),
        (errors.DeliveryTimeoutError, TimeoutError),
        (errors.BufferFullError, BufferError),
        (errors.NoSuchPartitionError, ValueError),
    ],
)
def test_an_error_of_the_client_is_the_builtin_that_people_catch(
    error: type[KafkaError], builtin: type[Exception]
) -> None:
    assert issubclass(error, builtin)


def test_a_closed_client_needs_no_words() -> None:
    assert str(errors.ClientClosedError()) == "the client is closed"


def test_one_except_clause_catches_everything() -> None:
    for error in (errors.DecodeError, errors.EncodeError, MissingExtraError, BrokerError, SerdeError):
        assert issubclass(error, KafkaError)
    assert issubclass(MissingExtraError, ImportError)


def test_what_an_error_is_written_as_names_where_it_happened() -> None:
    error = NotLeaderOrFollowerError("moved", topic="orders", partition=3)
    assert repr(error) == "NotLeaderOrFollowerError('moved', topic='orders', partition=3)"
    assert repr(NotLeaderOrFollowerError()) == "NotLeaderOrFollowerError()"
    assert repr(UnknownCodeError(999, broker=1)) == "UnknownCodeError(999, broker=1)"
