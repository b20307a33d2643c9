"""Requests: any request of the Kafka protocol, sent to the brokers that it is for, tried again, merged.

A request for several brokers is taken apart (sharding/), its parts are sent side by side, each part is tried again
on its own until the deadline, and the responses are put together. Items of one response fail one by one too: what
succeeded is kept, what may still succeed is sent again.

Invariant: every item of a request ends in exactly one shard, with a response or with an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.client.backoff import Backoff
from ottla.client.connections.brokers import Brokers
from ottla.client.deadline import Deadline, DeadlinePassed, check_timeout
from ottla.client.metadata import Metadata
from ottla.client.requests.attempt import NO_BROKER, BrokerResponse, RequestSender
from ottla.client.requests.coordinators import CoordinatorType
from ottla.client.requests.routing import RequestTarget, RetryState, Routing
from ottla.client.requests.sharding import Destination, ItemKey, Route, in_newest_shape, route_of
from ottla.config import ClientConfig
from ottla.errors import (
    ApiTimeoutError,
    BrokerError,
    ConnectionFailedError,
    ConnectionLostError,
    KafkaError,
    NoBrokersError,
    RequestTimedOutError,
    RequestTimeoutError,
    ThrottlingQuotaExceededError,
    UnknownBrokerError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    from_code,
)
from ottla.net import OnDone
from ottla.runtime import Runtime
from ottla.wire import Message, api_for_key
from ottla.wire.messages import ProduceRequest, SaslAuthenticateRequest, SaslHandshakeRequest

_MISSING: Final = (UnknownBrokerError, UnknownTopicOrPartitionError, UnknownTopicIdError)
MISSING_TRIES: Final = 4
"""What has just been created may not have got around; what is still missing then does not exist (as in franz-go)."""

_UNSURE: Final = (ConnectionLostError, RequestTimeoutError, RequestTimedOutError)
_UNREACHED: Final = (ConnectionFailedError, NoBrokersError, UnknownBrokerError)


@dataclass(frozen=True, slots=True)
class Shard:
    """A part of a request, and what came of it: `response` or `error`."""

    broker: int | None
    """The one that responded, or should have; None where none could be reached."""
    request: Message
    response: Message | None = None
    error: KafkaError | None = None
    unsure: KafkaError | None = None
    """An earlier attempt that ended without a response, after which this part was sent again: it may have been
    carried out already, and an error such as TOPIC_ALREADY_EXISTS may be due to that."""


@dataclass(frozen=True, slots=True)
class _Call:
    """What the parts of a request have in common."""

    request: Message
    route: Route
    version: int | None
    deadline: Deadline
    lane: int = 0
    is_repeated: bool = True

    @property
    def api(self) -> str:
        return api_for_key(self.request.API_KEY).name

    def part(self, keys: Sequence[ItemKey]) -> Message:
        items = self.route.items
        if self.route.destination is Destination.EVERY or list(keys) == items.keys(self.request):
            return self.request
        return items.request_for(self.request, keys)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """One attempt: a shard that is settled, and the items to be tried again, with the reason."""

    settled: Shard | None = None
    retried: Sequence[ItemKey] = ()
    error: KafkaError | None = None
    rejected: Shard | None = None
    """What the items to be tried again end with, if they are not: the response that names their errors."""
    wait: float = 0.0


class Requests:
    """Sends requests for a client.

    >>> response = await requests.send(ListOffsetsRequest(...))          # doctest: +SKIP
    >>> shards = await requests.fan_out(DescribeLogDirsRequest())        # doctest: +SKIP
    """

    def __init__(self, config: ClientConfig, runtime: Runtime, brokers: Brokers, metadata: Metadata) -> None:
        self._config = config
        self._runtime = runtime
        self._sender = RequestSender(config, runtime.clock, brokers)
        self._routing = Routing(self._sender, metadata)
        self._backoff = Backoff(
            config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000, runtime.random
        )

    async def send(
        self,
        request: Message,
        *,
        broker: int | None = None,
        version: int | None = None,
        timeout: float | None = None,
        lane: int = 0,
        once: bool = False,
    ) -> Message:
        """The response to a request, merged out of those of all brokers that have a part in it.

        Without `broker` it goes to the brokers that it is for: the leaders of its partitions, the coordinators of its
        groups, any broker. After failed connections and retriable errors it is tried again until `timeout` seconds
        have gone by (by default `default_api_timeout_ms`). Other error codes are in the response,
        as the brokers gave them; a part without a response raises, and `fan_out` gives the other parts too.

        With `broker`, it is sent to that one, once. `lane` is that of its connection: a consumer whose request waits
        for other members of its group must not hold up another consumer of the client. With `once` no attempt follows
        one that has failed: for a caller that has to say something else then.

        The version is the highest that both sides know, and a response has the fields of the newest one. With
        `version` request and response have exactly that version's.

            response = await kafka.request(MetadataRequest(topics=None))
            response = await kafka.request(ApiVersionsRequest(), broker=1)
        """
        if broker is not None:
            return await self._send_to(request, broker, version, timeout)
        shards = await self.fan_out(request, version=version, timeout=timeout, lane=lane, once=once)
        failed = [shard for shard in shards if shard.error is not None]
        if failed:
            raise _first_error(failed)
        responses = [shard.response for shard in shards if shard.response is not None]
        return route_of(in_newest_shape(request)).items.merge(in_newest_shape(request), responses)

    async def fan_out(
        self,
        request: Message,
        *,
        version: int | None = None,
        timeout: float | None = None,
        lane: int = 0,
        once: bool = False,
    ) -> list[Shard]:
        """Every part of the request with its own response or error; in the order in which brokers were named.

        for shard in await kafka.request_sharded(DescribeLogDirsRequest(topics=None)):
            print(shard.broker, shard.response or shard.error)
        """
        _check(request)
        if version is None:
            request = in_newest_shape(request)
        route = route_of(request)
        if route.destination is Destination.NAMED:
            raise ValueError(
                f"{api_for_key(request.API_KEY).name} has to be sent to a certain broker: say which, with broker=,"
                " or use the client's own methods"
            )
        call = _Call(request, route, version, self._deadline(timeout), lane, not once)
        retry_state = RetryState()
        keys = await self._keys(call, retry_state)
        return (
            await self._send_until_settled(call, keys, retry_state, None)
            if isinstance(keys, list)
            else [keys]
        )

    def forget_coordinator(self, key: str, kind: CoordinatorType = CoordinatorType.GROUP) -> None:
        """For a caller that reads in a response that its broker does not coordinate that (any more)."""
        self._routing.coordinators.forget(kind, key)

    async def brokers_known(self) -> None:
        """Returns when a broker has said who the others are; it was connected to for that."""
        await self._routing.brokers_known()

    async def coordinator(self, kind: CoordinatorType, key: str) -> int:
        """The broker that coordinates a group or a transactional id; one attempt to find it."""
        await self._routing.brokers_known()
        found = (await self._routing.coordinators.find(kind, [key]))[key]
        if isinstance(found, KafkaError):
            raise found
        if found not in self._routing.view.brokers:
            # It is newer than what metadata has.
            await self._routing.brokers_known(0.0)
        return found

    async def send_built(
        self,
        node_id: int,
        request_class: type[Message],
        build: Callable[[int], Message],
        least: int = 0,
        most: int | None = None,
    ) -> tuple[Message, int]:
        """One attempt with one broker, for callers that decide about each attempt; see `RequestSender.send_built`."""
        return await self._sender.send_built(node_id, request_class, build, least, most)

    def begin_built(
        self,
        node_id: int,
        request_class: type[Message],
        build: Callable[[int], Message],
        on_done: OnDone,
        least: int = 0,
        most: int | None = None,
    ) -> bool:
        """The same without waiting; see `RequestSender.begin_built`."""
        return self._sender.begin_built(node_id, request_class, build, on_done, least, most)

    def known_coordinator(self, kind: CoordinatorType, key: str) -> int | None:
        """The broker that coordinates it, if one has said so and it has not turned out to be wrong."""
        return self._routing.coordinators.known(kind, key)

    async def _send_to(
        self, request: Message, node_id: int, version: int | None, timeout: float | None
    ) -> Message:
        _check(request)
        if version is None:
            request = in_newest_shape(request)
        deadline = self._deadline(timeout)
        try:
            response = await deadline.bound(self._send_to_known(request, node_id, version))
        except DeadlinePassed:
            api = api_for_key(request.API_KEY).name
            reason = self._sender.failure(request) or self._routing.failure
            raise _timed_out(api, deadline, reason, f" by broker {node_id}") from reason
        return response.message

    async def _send_to_known(self, request: Message, node_id: int, version: int | None) -> BrokerResponse:
        try:
            return await self._sender.send(node_id, request, version)
        except UnknownBrokerError:
            # A broker that metadata has not named yet: nothing has been requested so far, or it is new.
            await self._routing.brokers_known(0.0)
        return await self._sender.send(node_id, request, version)

    def _deadline(self, timeout: float | None) -> Deadline:
        check_timeout(timeout)
        seconds = self._config.default_api_timeout_ms / 1000 if timeout is None else timeout
        return Deadline(self._runtime.clock, seconds)

    async def _keys(self, call: _Call, retry_state: RetryState) -> list[ItemKey] | Shard:
        """The items; of a request to every broker, the brokers are."""
        if call.route.destination is not Destination.EVERY:
            return call.route.items.keys(call.request)
        while True:
            error: KafkaError | DeadlinePassed
            try:
                view = await call.deadline.bound(self._routing.brokers_known())
                if view.brokers:
                    return list(view.brokers)
                error = NoBrokersError("the cluster has no brokers, or has not named them yet")
            except (KafkaError, DeadlinePassed) as failed:
                error = failed
            if (final := await self._final(call, retry_state, error)) is not None:
                return Shard(None, call.request, error=final)

    async def _send_until_settled(
        self, call: _Call, keys: Sequence[ItemKey], retry_state: RetryState, target: RequestTarget | None
    ) -> list[Shard]:
        """Sends items until each is settled. `target` is where they go first, if that is known already.

        Only items that turn out to belong to different brokers are sent apart, so this nests no deeper than there
        are items; attempts are a loop.
        """
        done: list[Shard] = []
        while True:
            if target is None:
                targets = await self._targets(call, keys, retry_state)
                if len(targets) > 1:
                    return done + await self._send_apart(call, targets, retry_state)
                target = targets[0]
            outcome = await self._attempt(call, target, retry_state)
            if outcome.settled is not None:
                done.append(outcome.settled)
            if outcome.error is None:
                return done
            if not call.is_repeated:
                # What the caller sends next has to find its way anew.
                self._routing.failed(call.route, outcome.retried)
            final = await self._final(call, retry_state, outcome.error, outcome.wait)
            if final is not None:
                rejected = outcome.rejected if final is outcome.error else None
                done.append(
                    rejected
                    or Shard(target.broker, call.part(outcome.retried), None, final, retry_state.unsure)
                )
                return done
            self._routing.failed(call.route, outcome.retried)
            keys, target = outcome.retried, None

    async def _send_apart(
        self, call: _Call, targets: Sequence[RequestTarget], retry_state: RetryState
    ) -> list[Shard]:
        found = await asyncio.gather(
            *(
                self._send_until_settled(call, target.keys, retry_state.branch(), target)
                for target in targets
            ),
            return_exceptions=True,
        )
        shards: list[Shard] = []
        for each in found:
            if isinstance(each, BaseException):
                raise each  # none is expected; all have ended by now
            shards += each
        return shards

    async def _targets(
        self, call: _Call, keys: Sequence[ItemKey], retry_state: RetryState
    ) -> list[RequestTarget]:
        try:
            return await call.deadline.bound(self._routing.targets(call.route, keys, retry_state))
        except KafkaError as error:
            return [RequestTarget(list(keys), None, error)]
        except DeadlinePassed:
            return [RequestTarget(list(keys), None, self._deadline_error(call, retry_state))]

    async def _attempt(self, call: _Call, target: RequestTarget, retry_state: RetryState) -> _Outcome:
        if target.error is not None:
            return _Outcome(retried=target.keys, error=target.error)
        request = call.part(target.keys)
        try:
            response = await call.deadline.bound(self._send(target.broker, request, call, retry_state.avoid))
        except KafkaError as error:
            retry_state.avoid = target.broker
            return _Outcome(retried=target.keys, error=error)
        except DeadlinePassed:
            return _Outcome(retried=target.keys, error=self._deadline_error(call, retry_state))
        return _outcome_of(call, target, request, response, retry_state)

    async def _send(
        self, node_id: int | None, request: Message, call: _Call, avoid: int | None
    ) -> BrokerResponse:
        if node_id is None:
            return await self._sender.send_to_any(request, call.version, avoid)
        return await self._sender.send(node_id, request, call.version, call.lane)

    async def _final(
        self, call: _Call, retry_state: RetryState, error: KafkaError | DeadlinePassed, wait: float = 0.0
    ) -> KafkaError | None:
        """The error that a part ends with; None if it is to be tried again, after the back-off."""
        if isinstance(error, DeadlinePassed):
            return self._deadline_error(call, retry_state)
        if isinstance(error, _UNSURE):
            retry_state.unsure = error
        retry_state.missing += isinstance(error, _MISSING)
        if not _is_retriable(call.route, error) or retry_state.missing >= MISSING_TRIES:
            return error
        if not call.is_repeated:
            return error
        if retry_state.attempts >= self._config.retries:
            return error
        retry_state.last, retry_state.refresh = error, True
        delay = max(wait, self._backoff.delay(retry_state.attempts))
        retry_state.attempts += 1
        if delay >= call.deadline.left():
            return _timed_out(call.api, call.deadline, error)
        await self._runtime.clock.sleep(delay)
        return None

    def _deadline_error(self, call: _Call, retry_state: RetryState) -> ApiTimeoutError:
        """The deadline has passed while something was awaited: a broker, or metadata."""
        reason = retry_state.last or self._sender.failure(call.request) or self._routing.failure
        return _timed_out(call.api, call.deadline, reason)


def _outcome_of(
    call: _Call, target: RequestTarget, request: Message, received: BrokerResponse, retry_state: RetryState
) -> _Outcome:
    """Which items the response settles, and which are worth another try."""
    items, response = call.route.items, received.message
    codes = items.codes(response)
    by_key = {key: items.code_of(response, codes, key) for key in target.keys}
    retried = [key for key in target.keys if call.route.is_retried(by_key[key])]
    if not retried:
        return _Outcome(settled=Shard(received.broker, request, response, None, retry_state.unsure))
    error = _error_of(retried[0], by_key[retried[0]], received.broker)
    wait = (
        response.throttle_time_ms / 1000  # type: ignore[attr-defined]
        if error.code == ThrottlingQuotaExceededError.code
        else 0.0
    )
    if len(retried) == len(target.keys):
        rejected = Shard(received.broker, request, response, None, retry_state.unsure)
        return _Outcome(retried=retried, error=error, rejected=rejected, wait=wait)
    settled_keys = [key for key in target.keys if key not in dict.fromkeys(retried)]
    settled = Shard(
        received.broker,
        call.part(settled_keys),
        items.response_for(response, settled_keys),
        None,
        retry_state.unsure,
    )
    rejected = Shard(
        received.broker, call.part(retried), items.response_for(response, retried), None, retry_state.unsure
    )
    return _Outcome(settled, retried, error, rejected, wait)


def _error_of(key: ItemKey, code: int, broker: int) -> BrokerError:
    topic, partition = key if isinstance(key, tuple) and isinstance(key[0], str) else (None, None)
    error = from_code(code, topic=topic, partition=partition, broker=None if broker < 0 else broker)
    assert error is not None
    return error


def _is_retriable(route: Route, error: KafkaError) -> bool:
    if isinstance(error, BrokerError):
        return route.is_retried(error.code)
    return isinstance(error, (*_UNSURE, *_UNREACHED))


def _check(request: Message) -> None:
    if not isinstance(request, Message):
        raise TypeError(
            f"a request is an object of ottla.wire.messages, such as MetadataRequest(), not {request!r}"
        )
    if isinstance(request, ProduceRequest) and request.acks == 0:
        raise ValueError(
            "no broker answers a Produce request with acks=0: use produce() with the option acks=0"
        )
    if isinstance(request, SaslHandshakeRequest | SaslAuthenticateRequest):
        raise ValueError("connections authenticate by themselves, when they are opened")
    if request.API_KEY == NO_BROKER or type(request) is not api_for_key(request.API_KEY).request:
        raise TypeError(f"{type(request).__name__} is no request: ottla.wire.messages has them all")


def _timed_out(api: str, deadline: Deadline, last: KafkaError | None, by: str = "") -> ApiTimeoutError:
    said = "" if last is None else f"; the last error was: {last}"
    error = ApiTimeoutError(
        f"{api} was not answered{by} within {deadline.seconds:g} s (timeout, default_api_timeout_ms){said}"
    )
    error.__cause__ = last
    return error


def _first_error(failed: Sequence[Shard]) -> KafkaError:
    first, *others = [shard.error for shard in failed if shard.error is not None]
    for other in others:
        first.add_note(f"another part of the request failed too: {other}")
    return first
