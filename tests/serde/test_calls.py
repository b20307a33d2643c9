"""What the client calls: None passes, bytes come out, and errors say where and why."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest

from ottla.errors import DeserializationError, KafkaError, SerializationError
from ottla.serde import Deserialize, SerdeContext, Serialize, resolve_deserializer, resolve_serializer
from ottla.wire.batches import encode_batch
from ottla.wire.records import decode_fetch
from tests.serde.records import Fetched


class Tagging:
    """Knows the topic, and leaves a header, as a schema registry's serializer does."""

    def __init__(self) -> None:
        self.contexts: list[SerdeContext] = []

    def serialize(self, value: str, context: SerdeContext) -> bytes:
        self.contexts.append(context)
        context.headers.append(("schema", b"7"))
        return f"{context.topic}/{context.field}/{value}".encode()

    def deserialize(self, data: bytes, context: SerdeContext) -> str:
        self.contexts.append(context)
        return f"{context.topic}/{context.field}/{data.decode()}"


class Failing:
    def serialize(self, value: object, context: SerdeContext) -> bytes:
        raise LookupError("no schema")

    def deserialize(self, data: bytes, context: SerdeContext) -> object:
        raise LookupError("no schema")


def serializer(spec: Any) -> Serialize:
    serialize = resolve_serializer(spec, "value")
    assert serialize is not None
    return serialize


def deserializer(spec: Any) -> Deserialize:
    deserialize = resolve_deserializer(spec, "value")
    assert deserialize is not None
    return deserialize


def order_to_bytes(order: dict[str, str]) -> bytes:
    return order["id"].encode()


def order_from_bytes(data: bytes) -> dict[str, str]:
    raise KeyError("id")


@pytest.mark.parametrize("spec", ["str", "json", "int64", "uuid", order_to_bytes, Failing()])
def test_none_is_null_and_reaches_no_serializer(spec: Any) -> None:
    assert serializer(spec)(None, "orders", []) is None


@pytest.mark.parametrize("spec", ["str", "json", "int64", "uuid", order_from_bytes, Failing()])
def test_null_is_none_and_reaches_no_deserializer(spec: Any) -> None:
    assert deserializer(spec)(None, Fetched()) is None


@pytest.mark.parametrize("value", [0, "", [], False, {}])
def test_what_is_merely_empty_is_no_null(value: object) -> None:
    assert serializer("json")(value, "orders", []) is not None


def test_an_empty_text_is_read_as_one() -> None:
    assert deserializer("str")(b"", Fetched()) == ""


def test_a_serializer_with_context_knows_topic_and_field_and_can_add_headers() -> None:
    tagging = Tagging()
    headers: list[tuple[str, bytes | None]] = [("trace", b"1")]
    assert serializer(tagging)("x", "orders", headers) == b"orders/value/x"
    assert headers == [("trace", b"1"), ("schema", b"7")]
    assert tagging.contexts[0].headers is headers


def test_a_deserializer_with_context_knows_topic_field_and_headers() -> None:
    tagging = Tagging()
    assert deserializer(tagging)(b"x", Fetched()) == "orders/value/x"
    assert tagging.contexts == [SerdeContext("orders", "value", [("trace", b"1"), ("flag", None)])]


def test_a_value_of_the_wrong_type_is_told_with_topic_field_type_and_what_was_expected() -> None:
    with pytest.raises(SerializationError) as caught:
        serializer("int32")("5", "orders", [])
    error = caught.value
    assert (error.topic, error.field) == ("orders", "value")
    assert (error.expected, error.received) == ("an int of 32 bits", "str")
    assert isinstance(error, KafkaError)
    assert isinstance(error.__cause__, struct.error)
    assert str(error) == (
        "the value for topic orders should be an int of 32 bits, not str: "
        "struct.error: required argument is not an integer"
    )


def test_the_error_names_the_key_when_it_was_the_key() -> None:
    serialize = resolve_serializer("str", "key")
    assert serialize is not None
    with pytest.raises(
        SerializationError, match=r"^the key for topic orders should be a str in utf-8, not int: "
    ):
        serialize(5, "orders", [])


def test_a_failing_callable_is_named_and_its_error_is_the_cause() -> None:
    with pytest.raises(SerializationError) as caught:
        serializer(order_to_bytes)({}, "orders", [])
    assert isinstance(caught.value.__cause__, KeyError)
    assert str(caught.value) == (
        "the value for topic orders should be what order_to_bytes takes, not dict: KeyError: 'id'"
    )


def test_a_failing_serializer_with_context_is_named_by_its_class() -> None:
    with pytest.raises(
        SerializationError, match=r"should be what Failing takes, not .*Fetched: LookupError: no"
    ):
        serializer(Failing())(Fetched(), "orders", [])
    with pytest.raises(DeserializationError, match="is not what Failing reads: LookupError: no schema"):
        deserializer(Failing())(b"x", Fetched())


@pytest.mark.parametrize("made", [bytearray(b"abc"), memoryview(b"abc"), memoryview(b"a-b-c")[::2]])
def test_anything_that_holds_bytes_is_made_bytes(made: object) -> None:
    data = serializer(lambda value: made)(1, "orders", [])
    assert data == b"abc"
    assert type(data) is bytes


@pytest.mark.parametrize(("made", "received"), [("abc", "str"), (5, "int"), ([1], "list")])
def test_a_serializer_that_makes_no_bytes_is_told(made: object, received: str) -> None:
    def careless(value: object) -> object:
        return made

    with pytest.raises(SerializationError, match=f"careless returns it, not {received}$") as caught:
        serializer(careless)(1, "orders", [])
    assert caught.value.received == received


def test_a_serializer_that_returns_nothing_makes_no_tombstone() -> None:
    with pytest.raises(SerializationError, match="not NoneType; for a null, produce None itself"):
        serializer(lambda value: None)(1, "orders", [])


def test_bytes_that_cannot_be_read_are_told_with_the_whole_record() -> None:
    record = Fetched(value=b"abcde")
    with pytest.raises(DeserializationError) as caught:
        deserializer("int32")(record.value, record)
    error = caught.value
    assert (error.topic, error.partition, error.offset) == ("orders", 3, 17)
    assert (error.timestamp, error.headers) == (1_700_000_000_000, (("trace", b"1"), ("flag", None)))
    assert (error.field, error.data, error.key, error.value) == ("value", b"abcde", b"the key", b"abcde")
    assert error.expected == "an int of 32 bits"
    assert isinstance(error.__cause__, struct.error)
    assert str(error) == (
        "the value (5 bytes) at offset 17 of topic orders, partition 3 is not an int of 32 bits: "
        "struct.error: unpack requires a buffer of 4 bytes"
    )


def test_the_data_of_the_error_is_the_key_when_that_could_not_be_read() -> None:
    deserialize = resolve_deserializer(order_from_bytes, "key")
    assert deserialize is not None
    with pytest.raises(
        DeserializationError, match=r"^the key .* is not what order_from_bytes reads: KeyError"
    ):
        deserialize(b"the key", Fetched())
    with pytest.raises(DeserializationError) as caught:
        deserialize(b"the key", Fetched())
    assert (caught.value.field, caught.value.data) == ("key", b"the key")


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, asyncio.CancelledError])
def test_an_interruption_passes_as_it_is(interruption: type[BaseException]) -> None:
    def interrupted(value: Any) -> bytes:
        raise interruption

    with pytest.raises(interruption):
        serializer(interrupted)(1, "orders", [])
    with pytest.raises(interruption):
        deserializer(interrupted)(b"1", Fetched())


def test_a_record_of_the_compiled_core_is_told_as_it_is() -> None:
    batch = encode_batch([(17, 5, None, b"\xff", [("trace", b"1")])], base_offset=17)
    record = decode_fetch(batch, "orders", 3)[0]
    with pytest.raises(DeserializationError) as caught:
        deserializer("str")(record.value, record)
    error = caught.value
    assert (error.topic, error.partition, error.offset, error.timestamp) == ("orders", 3, 17, 5)
    assert (error.key, error.value, error.headers) == (None, b"\xff", (("trace", b"1"),))
