"""Records that the client gives up by itself: overdue, aborted, left at the end, of a topic that fails or is purged.

All on the loop. Whether a batch may be given up, and what that means for those behind it, is the RecBuf's
(`may_fail`, `give_up`); here is when that is looked at, and which error the receipts get: what happened, and whether
the record may be stored.

Invariant: the batches of one RecBuf are all taken out before the first receipt is completed, because a callback of
that may come back here.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from ottla.client.metadata import Metadata
from ottla.client.produce.batch import ProducerBatch
from ottla.client.produce.completions import Completions
from ottla.client.produce.producer_id import Identities
from ottla.client.produce.recbuf import RecBuf
from ottla.client.produce.settings import ProduceSettings
from ottla.client.produce.topics import UNKNOWN_TOPIC, ProducerTopics, TopicProducer
from ottla.client.produce.wakeups import Wakeups
from ottla.errors import (
    AbortedError,
    ApiTimeoutError,
    DeliveryTimeoutError,
    KafkaError,
    UnknownTopicOrPartitionError,
)
from ottla.runtime import Clock
from ottla.wire.records import Accumulator

_logger = logging.getLogger("ottla.client.produce.producer")

_SWEEPS: Final = 20
"""Within a delivery timeout; a record is given up at most a twentieth of it too late."""
_MOST_BETWEEN_SWEEPS: Final = 1.0


class Failures:
    """Gives records up, for all reasons but what a broker answers."""

    def __init__(
        self,
        settings: ProduceSettings,
        clock: Clock,
        accumulator: Accumulator,
        topics: ProducerTopics,
        wakeups: Wakeups,
        completions: Completions,
        metadata: Metadata,
        ids: Identities,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._accumulator = accumulator
        self._topics = topics
        self._wakeups = wakeups
        self._completions = completions
        self._metadata = metadata
        self._ids = ids
        wakeups.sweep_every(min(settings.max_unknown / _SWEEPS, _MOST_BETWEEN_SWEEPS), self._sweep)

    def _sweep(self) -> bool:
        """Gives up what is overdue; whether there is something left that may become so."""
        now = self._clock.monotonic()
        for topic in list(self._topics.by_name.values()):
            opened_at = topic.unknown.opened_at
            if opened_at is not None and opened_at < now - self._settings.max_unknown:
                why = topic.last_error or self._metadata.failure()
                self.fail_topic(topic, never_known(topic.name, self._settings, why))
        opened_before = now - self._settings.delivery_timeout
        for recbuf in list(self._topics.by_buffer.values()):
            for batch in recbuf.overdue(opened_before):
                # A callback of the one before may have given it up.
                if not batch.is_done:
                    self._give_up(recbuf, [batch], self._expiry(recbuf, batch))
        self._topics.drop_purged()
        # Records may come for a topic that is tracked and unknown: no dirty buffer would begin the next sweep.
        unknown = any(
            topic.tracked_at is not None and topic.appender is None
            for topic in list(self._topics.by_name.values())
        )
        is_empty = all(recbuf.is_empty for recbuf in self._topics.by_buffer.values())
        return unknown or bool(self._accumulator.used_records) or not is_empty

    def _expiry(self, recbuf: RecBuf, batch: ProducerBatch) -> BaseException:
        if recbuf.is_deleted:
            return UnknownTopicOrPartitionError(
                "the topic was created anew without this partition",
                topic=recbuf.topic,
                partition=recbuf.partition,
            )
        if recbuf.is_forgotten(batch) and batch.last_error is not None:
            return batch.last_error
        why = batch.last_error or self._metadata.failure() or self._ids.last_error
        return overdue(
            f"{recbuf.topic}-{recbuf.partition}", self._settings.delivery_timeout, why, batch.may_be_stored
        )

    def _give_up(self, recbuf: RecBuf, batches: Sequence[ProducerBatch], error: BaseException) -> None:
        # From the end: what is certainly not stored gives its sequence numbers back that way.
        for batch in reversed(batches):
            recbuf.give_up(batch)
        for batch in batches:
            self._completions.failed(batch, batch.final_error(error))
        self._wakeups.consider(recbuf)

    def fail_topic(self, topic: TopicProducer, error: BaseException) -> None:
        """It does not exist, or may not be written to. A batch that a broker can still account for waits for that."""
        # That records are given up is a wish of the program, or was told already.
        level = logging.DEBUG if isinstance(error, AbortedError) else logging.WARNING
        _logger.log(level, "records for %s cannot be delivered: %s", topic.name, error)
        if topic.appender is None:
            if topic.failure is not None:
                return
            self._drop_unknown(topic, error)
        is_gone = isinstance(error, UNKNOWN_TOPIC)
        for recbuf in topic.recbufs:
            recbuf.take_all()
            # Of what may be stored in a topic that is gone, no broker will ever say.
            batches = [
                batch
                for batch in recbuf.batches
                if recbuf.may_fail(batch) or (is_gone and not batch.is_in_flight)
            ]
            self._give_up(recbuf, batches, error)

    def _drop_unknown(self, topic: TopicProducer, error: BaseException) -> None:
        # The next record for it begins anew, and has it tracked again. In this order: see `open` of topics.py.
        topic.failure = error
        self._topics.remove(topic)
        if topic.tracked_at is not None:
            self._metadata.untrack(topic.name)
        self._fail_unknown(topic, error)
        # A table that is to be produced waits for the topic.
        self._metadata.look_again()

    def _fail_unknown(self, topic: TopicProducer, error: BaseException) -> None:
        records = topic.unknown.records
        if records:
            self._completions.count_failed(records, error)
        topic.fail_unknown(error)
        self._completions.space_freed()

    def fail_all(self, error: BaseException) -> None:
        """Nothing will be sent any more: every record has this error, but those whose response is pending."""
        for topic in list(self._topics.by_name.values()):
            if topic.appender is None:
                self.fail_topic(topic, error)
        for recbuf in list(self._topics.by_buffer.values()):
            recbuf.take_all()
            self._give_up(recbuf, [batch for batch in recbuf.batches if not batch.is_in_flight], error)

    def abort_buffered(self) -> int:
        """Fails every record that no request has been sent with; how many there were."""
        aborted = 0
        error = AbortedError("the record was aborted before it was sent, and is not stored")
        for topic in list(self._topics.by_name.values()):
            if topic.appender is None:
                aborted += topic.unknown.records
                self.fail_topic(topic, error)
            aborted += self._abort(topic, error)
        return aborted

    def _abort(self, topic: TopicProducer, error: BaseException) -> int:
        aborted = 0
        for recbuf in topic.recbufs:
            recbuf.take_all()
            batches = [batch for batch in recbuf.batches if recbuf.may_fail(batch)]
            aborted += sum(batch.encoded.count for batch in batches)
            self._give_up(recbuf, batches, error)
        return aborted

    def purge(self, topic: TopicProducer) -> int:
        """Fails every record of a topic that is not in flight, and forgets the topic; how many there were."""
        if topic.appender is None:
            records = topic.unknown.records
            self._drop_unknown(
                topic,
                AbortedError(f"topic {topic.name} was purged before it was known: no record of it was sent"),
            )
            return records
        if not self._ids.may_forget:
            # The identity of a transaction goes on with the sequences it has, in this partition and in all others.
            return self._abort(
                topic,
                AbortedError(
                    f"topic {topic.name} was purged before the record was sent, and it is not stored"
                ),
            )
        given_up = self._topics.purge(topic)
        self._metadata.untrack(topic.name)
        for recbuf, batch in given_up:
            self._completions.failed(batch, purged_before(recbuf, batch, batch.last_error))
        return sum(batch.encoded.count for _, batch in given_up)

    def close(self) -> None:
        """The client is closed: every record that is left fails, whatever may have become of it."""
        for topic in list(self._topics.by_name.values()):
            if topic.appender is None and topic.failure is None:
                self._fail_unknown(topic, AbortedError("the client was closed before the topic was known"))
        for recbuf in list(self._topics.by_buffer.values()):
            recbuf.take_all()
            for batch in list(recbuf.batches):
                if not batch.is_done:
                    error = closed_before(recbuf, batch)
                    recbuf.give_up(batch)
                    self._completions.failed(batch, error)


def overdue(where: str, seconds: float, cause: BaseException | None, stored: bool) -> DeliveryTimeoutError:
    """The delivery timeout of so many seconds is over for a record of a topic or partition."""
    return _late(where, f"delivery_timeout_ms={seconds * 1000:.0f}", cause, stored)


def never_known(topic: str, settings: ProduceSettings, cause: BaseException | None) -> DeliveryTimeoutError:
    """No metadata of the topic has come while its records waited."""
    if settings.max_unknown == settings.delivery_timeout:
        return overdue(topic, settings.delivery_timeout, cause, stored=False)
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


def closed_before(recbuf: RecBuf, batch: ProducerBatch) -> AbortedError:
    """The client was closed."""
    known = "it may be stored" if batch.may_be_stored else "it is not stored"
    error = AbortedError(
        f"the client was closed before a record for {recbuf.topic}-{recbuf.partition} was delivered: {known}",
        may_be_stored=batch.may_be_stored,
    )
    error.__cause__ = batch.last_error
    return error


def purged_before(recbuf: RecBuf, batch: ProducerBatch, last_error: BaseException | None) -> AbortedError:
    """The topic was purged; `last_error` is what the last try has ended with."""
    known = "it may be stored" if batch.may_be_stored else "it is not stored"
    reason = f"; the last error was: {last_error}" if last_error is not None else ""
    error = AbortedError(
        f"topic {recbuf.topic} was purged before a record for partition {recbuf.partition} was delivered: "
        f"{known}{reason}",
        may_be_stored=batch.may_be_stored,
    )
    error.__cause__ = last_error
    return error


def flush_waited(seconds: float, batches: int, settings: ProduceSettings) -> str:
    """What `flush` has seen, for the error."""
    return (
        f"flush waited {seconds:g} seconds, and {batches} batches are still under way; they are tried until "
        f"delivery_timeout_ms={settings.delivery_timeout * 1000:.0f}"
    )


def still_under_way(what: str, failure: KafkaError | None) -> ApiTimeoutError:
    """A caller has waited long enough, and nothing is given up; `failure` is why metadata fails, if it does."""
    return ApiTimeoutError(what if failure is None else f"{what}. The last error was: {failure}")
