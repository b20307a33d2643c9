"""The errors of records that the client gives up by itself: what happened, and whether they may be stored.

When to give up is the producer's (producer.py) and the RecBuf's (`may_fail`).
"""

from __future__ import annotations

from ottla.client.produce.batch import ProducerBatch
from ottla.client.produce.recbuf import RecBuf
from ottla.client.produce.settings import ProduceSettings
from ottla.errors import (
    AbortedError,
    ApiTimeoutError,
    DeliveryTimeoutError,
    KafkaError,
    UnknownTopicOrPartitionError,
)


def too_late(where: str, seconds: float, cause: BaseException | None, stored: bool) -> DeliveryTimeoutError:
    """The delivery timeout of so many seconds is over for a record of a topic or partition."""
    return _late(where, f"delivery_timeout_ms={seconds * 1000:.0f}", cause, stored)


def never_known(topic: str, settings: ProduceSettings, cause: BaseException | None) -> DeliveryTimeoutError:
    """No broker has told of the topic while its records were held."""
    if settings.max_held == settings.delivery_timeout:
        return too_late(topic, settings.delivery_timeout, cause, stored=False)
    return _late(topic, f"default_api_timeout_ms={settings.api_timeout * 1000:.0f}", cause, stored=False)


def _late(where: str, limit: str, cause: BaseException | None, stored: bool) -> DeliveryTimeoutError:
    known = "it may be stored all the same" if stored else "it is not stored"
    reason = f"; the last error was: {cause}" if cause is not None else ""
    error = DeliveryTimeoutError(
        f"a record for {where} was not delivered within {limit}, and {known}{reason}",
        may_be_stored=stored,
    )
    error.__cause__ = cause
    return error


def without_partition(recbuf: RecBuf) -> UnknownTopicOrPartitionError:
    """The partition is gone."""
    return UnknownTopicOrPartitionError(
        "the topic was created anew without this partition", topic=recbuf.topic, partition=recbuf.partition
    )


def closed_before(recbuf: RecBuf, batch: ProducerBatch) -> AbortedError:
    """The client was closed."""
    known = "it may be stored" if batch.may_be_stored else "it is not stored"
    error = AbortedError(
        f"the client was closed before a record for {recbuf.topic}-{recbuf.partition} was delivered: {known}",
        may_be_stored=batch.may_be_stored,
    )
    error.__cause__ = batch.last_error
    return error


def flush_waited(seconds: float, batches: int, settings: ProduceSettings) -> str:
    """What `flush` has seen, for the error."""
    return (
        f"flush waited {seconds:g} seconds, and {batches} batches are still under way; they are tried until "
        f"delivery_timeout_ms={settings.delivery_timeout * 1000:.0f}"
    )


def still_under_way(what: str, failure: KafkaError | None) -> ApiTimeoutError:
    """Somebody has waited long enough, and nothing is given up; `failure` is why metadata fails, if it does."""
    return ApiTimeoutError(what if failure is None else f"{what}. The last error was: {failure}")
