"""CoordinatorCalls: one request to a coordinator, sent until its outcome is known.

A request without a response may have been carried out. All that is sent here says the same when it is repeated: an
EndTxn that has been carried out before is answered as it was, a partition that is added twice is added once. So
nothing is given up here; a caller that waits long enough gives up waiting, and the call goes on.

What a code means is error_table.py's, what follows from it the manager's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from ottla.client.backoff import Backoff
from ottla.client.requests.coordinators import CoordinatorType
from ottla.client.transactions.error_table import Consequence, TransactionalCall, consequence_of
from ottla.errors import (
    BrokerError,
    ClientClosedError,
    ConcurrentTransactionsError,
    ConnectionFailedError,
    CoordinatorLoadInProgressError,
    EncodeError,
    KafkaError,
    NotCoordinatorError,
    UnknownBrokerError,
    UnsupportedApiError,
    from_code,
)
from ottla.net import PendingRequest
from ottla.wire import Message

if TYPE_CHECKING:
    from ottla.client.context import ClientContext
    from ottla.client.requests.requests import Requests

_logger = logging.getLogger("ottla.client.transactions")

_HOPELESS: Final = (UnsupportedApiError, EncodeError)
_NOT_CARRIED_OUT: Final = (
    ConnectionFailedError,
    UnknownBrokerError,
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    NotCoordinatorError,
)
"""With any other error a coordinator may have done what it was asked for."""
_SOON_S: Final = 0.02
"""The markers of the last transaction are still being written, which takes a moment only; Kafka's client waits as
long before it tries to add partitions again."""

_Response = TypeVar("_Response", bound=Message)


@dataclass(frozen=True, slots=True)
class CoordinatorRequest(Generic[_Response]):
    """What is to be said, to whom, and how the answer is read."""

    call: TransactionalCall
    kind: CoordinatorType
    key: str
    """The transactional id, or the group."""
    request: type[Message]
    build: Callable[[int], Message]
    """The request in a version."""
    response: type[_Response]
    code: Callable[[_Response], int]
    """The error code that counts."""
    least: int = 0
    most: int | None = None
    """The versions that say this."""


@dataclass(frozen=True, slots=True)
class CallOutcome(Generic[_Response]):
    """How a call has ended: with a response, or with the error that no repetition would change."""

    consequence: Consequence
    response: _Response | None = None
    error: KafkaError | None = None
    version: int = -1
    is_unsure: bool = False
    """An earlier attempt had no response: it may have been carried out, and the last one refused because of that."""

    @property
    def is_settled(self) -> bool:
        """Whether the call is over, and not to be repeated."""
        return self.consequence not in (Consequence.REPEAT, Consequence.LOOK_UP)


class CoordinatorCalls:
    """The calls of one client."""

    def __init__(self, context: ClientContext, requests: Requests) -> None:
        config = context.config
        self._requests = requests
        self._clock = context.runtime.clock
        self._backoff = Backoff(
            config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000, context.runtime.random
        )
        self.last_error: KafkaError | None = None
        """Why the call that is being repeated has no outcome yet."""

    def begin(
        self, asked: CoordinatorRequest[_Response], on_outcome: Callable[[CallOutcome[_Response]], object]
    ) -> bool:
        """The first attempt, without a task, if nothing has to be waited for before: whether it was sent.

        Its outcome is for `settle`, unless it is settled already.
        """
        kind, key = asked.kind, asked.key
        node_id = self._requests.known_coordinator(kind, key)
        if node_id is None:
            return False

        def done(pending: PendingRequest) -> None:
            error = pending.error
            outcome = (
                self._read(asked, node_id, pending.response, pending.version)
                if error is None
                else self._without_response(error, is_sent=True)
            )
            on_outcome(outcome)

        try:
            return self._requests.begin_built(
                node_id, asked.request, asked.build, done, asked.least, asked.most
            )
        except KafkaError as error:
            _logger.debug("%s for %s could not be sent at once: %s", asked.call.value, key, error)
            return False

    async def settle(
        self,
        asked: CoordinatorRequest[_Response],
        goes_on: Callable[[], bool] = lambda: True,
        first: CallOutcome[_Response] | None = None,
    ) -> CallOutcome[_Response] | None:
        """The outcome; None where it is not wanted any more before there is one, as `goes_on` says between attempts.

        The caller has to take what it gave up for carried out. `first` is what came of an attempt that was begun
        before.
        """
        attempts = 0
        is_unsure = False
        self.last_error = None
        while True:
            outcome = await self._attempt(asked) if first is None else first
            first = None
            if outcome.is_settled:
                self.last_error = None
                return outcome if outcome.is_unsure is is_unsure else replace(outcome, is_unsure=is_unsure)
            is_unsure = is_unsure or outcome.is_unsure
            self.last_error = outcome.error
            _logger.debug("%s for %s is repeated: %s", asked.call.value, asked.key, outcome.error)
            if outcome.consequence is Consequence.LOOK_UP:
                self._requests.forget_coordinator(asked.key, asked.kind)
            if not goes_on():
                return None
            await self._clock.sleep(self._delay(asked.call, outcome.error, attempts))
            if not goes_on():
                return None
            attempts += 1

    async def _attempt(self, asked: CoordinatorRequest[_Response]) -> CallOutcome[_Response]:
        is_sent = False
        try:
            node_id = await self._requests.coordinator(asked.kind, asked.key)
            is_sent = True
            message, version = await self._requests.send_built(
                node_id, asked.request, asked.build, asked.least, asked.most
            )
        except ClientClosedError:
            raise
        except BrokerError as error:
            # Only the search for the coordinator raises what a broker says.
            return CallOutcome(consequence_of(TransactionalCall.FIND_COORDINATOR, error.code), error=error)
        except KafkaError as error:
            return self._without_response(error, is_sent)
        return self._read(asked, node_id, message, version)

    def _without_response(self, error: KafkaError, is_sent: bool) -> CallOutcome[_Response]:
        if isinstance(error, _HOPELESS):
            return CallOutcome(Consequence.FATAL, error=error)
        is_unsure = is_sent and not isinstance(error, _NOT_CARRIED_OUT)
        return CallOutcome(Consequence.LOOK_UP, error=error, is_unsure=is_unsure)

    def _read(
        self, asked: CoordinatorRequest[_Response], node_id: int, message: Message, version: int
    ) -> CallOutcome[_Response]:
        assert isinstance(message, asked.response)
        code = asked.code(message)
        refused = from_code(code, broker=node_id)
        return CallOutcome(
            consequence_of(asked.call, code),
            message,
            refused,
            version,
            is_unsure=refused is not None and not isinstance(refused, _NOT_CARRIED_OUT),
        )

    def _delay(self, call: TransactionalCall, error: KafkaError | None, attempts: int) -> float:
        if (
            call is TransactionalCall.ADD_PARTITIONS
            and attempts == 0
            and isinstance(error, ConcurrentTransactionsError)
        ):
            return _SOON_S
        return self._backoff.delay(attempts)
