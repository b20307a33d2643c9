"""Metadata: requests who leads what, and notifies the producer, the consumers and the calls that wait for it.

    metadata.track("orders", create=True)
    topic = await metadata.wait(lambda view: view.topics.get("orders"), timeout=10)

One task sends the requests, one at a time. When is refresh_policy.py's, to which broker broker_choice.py's, what
tracked.py's; how responses become views is in merge.py. A view is applied in one go between two turns of the event
loop: first the brokers get it, then the listeners, then the calls that wait.

Invariants: the loop never has more than one pending request. A look at `view` sees one response, never half of it.
After `close` no listener is notified, and no call waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

from ottla.client.backoff import Backoff
from ottla.client.connections.broker import Broker
from ottla.client.connections.brokers import Brokers
from ottla.client.deadline import Deadline, DeadlinePassed, check_timeout
from ottla.client.metadata.broker_choice import BrokerChoice, QueryResponse, send_queries
from ottla.client.metadata.cache import TopicCache
from ottla.client.metadata.merge import GONE, hinted, merged, refresh_reasons, restricted
from ottla.client.metadata.refresh_policy import RefreshPolicy
from ottla.client.metadata.tracked import TopicsQuery, TrackedTopics, check_name
from ottla.client.metadata.view import BrokerView, ClusterView, MetadataListener, TopicView
from ottla.client.metadata.waiters import Waiters
from ottla.client.tasks import Tasks
from ottla.config import ClientConfig
from ottla.errors import ApiTimeoutError, ClientClosedError, NoBrokersError
from ottla.hooks import Hooks
from ottla.runtime import Runtime
from ottla.wire import Uuid

_log = logging.getLogger("ottla.client.metadata")

_T = TypeVar("_T")


class Metadata:
    """What a client knows of its cluster, kept current. Everything here belongs to the client's loop."""

    def __init__(
        self, config: ClientConfig, runtime: Runtime, hooks: Hooks, brokers: Brokers, tasks: Tasks
    ) -> None:
        """Nothing is requested before `start`, and then when it is needed."""
        self._config = config
        self._clock = runtime.clock
        self._hooks = hooks
        self._brokers = brokers
        self._tasks = tasks
        self._backoff = Backoff(
            config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000, runtime.random
        )
        self._min_age = config.metadata_min_age_ms / 1000
        self._policy = RefreshPolicy(
            self._min_age, config.metadata_max_age_ms / 1000, self._backoff, runtime.random
        )
        self._broker_choice = BrokerChoice(config, runtime.clock, brokers)
        self._tracked = TrackedTopics()
        self._cache = TopicCache(self._min_age)
        self._cache_lock = asyncio.Lock()
        self._waiters = Waiters(runtime.clock)
        self._listeners: list[MetadataListener] = []
        self._outdated: dict[str, None] = {}
        self._changed = asyncio.Event()
        self._is_pending = False
        self._tracked_since_sent = False
        self._notifies_soon = False
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self.view = ClusterView()
        """The cluster as it is known now; before the first response it has no brokers."""

    def start(self) -> None:
        """Begins; the first request leaves as soon as something is tracked, waited for or refreshed."""
        self._policy.begin(self._clock.monotonic())
        self._task = self._tasks.spawn(self._run(), "metadata")

    async def close(self) -> None:
        """Ends the loop at once; calls that wait get a ClientClosedError."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._waiters.fail(ClientClosedError)

    # What is requested

    def track(self, topic: str, create: bool | None = None) -> None:
        """Requests a topic from now on, until as many `untrack`; at once, if it is not known.

        `create` says that brokers may create it, if they are set up to; None leaves it to allow_auto_create_topics.
        """
        check_name(topic)
        known = topic in self._tracked and topic in self.view.topics
        self._tracked.track(topic, self._config.allow_auto_create_topics if create is None else create)
        if not known:
            self._track_more(f"topic {topic} is new")

    def untrack(self, topic: str) -> None:
        """The view is without it as soon as nothing tracks it."""
        if self._tracked.untrack(topic):
            self.view = restricted(self.view, self._tracked.__contains__)

    def track_all(self) -> None:
        """Requests every topic from now on, until as many `untrack_all`: for subscriptions by pattern.

        A topic that vanishes is shown as gone in one view, and then no more, unless it is tracked by name.
        """
        if not self._tracked.all:
            self._track_more("all topics are tracked")
        self._tracked.track_all()

    def untrack_all(self) -> None:
        if self._tracked.untrack_all():
            self.view = restricted(self.view, self._tracked.__contains__)

    def purge(self, topic: str) -> None:
        """Forgets what is known of a topic, unless it is tracked by name; a response on its way is not believed."""
        if topic in self._tracked.names:
            return
        self._cache.forget(topic)
        self.view = restricted(self.view, lambda name: name != topic)
        if self._is_pending:
            self._outdated[topic] = None

    # When it is requested

    def refresh(self, why: str) -> None:
        """Requests it again, but not before metadata_min_age_ms have passed since the last response."""
        _log.debug("metadata is to be refreshed: %s", why)
        self._policy.trigger()
        self._changed.set()

    def refresh_now(self, why: str) -> None:
        """Requests it at once, or soon after the pending request; after failures, when the back-off is over.

        For a sink or a source that has found out that what is known is wrong. However many do, and however often,
        there are no more than about ten requests per second.
        """
        _log.debug("metadata is to be refreshed now: %s", why)
        self._policy.trigger_urgent()
        self._changed.set()

    def failure(self) -> NoBrokersError | None:
        """Why there has been no response since the last one, for a call that gives up; None if nothing failed."""
        return self._broker_choice.error()

    @property
    def is_failing(self) -> bool:
        """Whether a broker has failed to respond since the last response."""
        return self._broker_choice.is_failing

    # Listeners, and calls that wait

    def add_listener(self, listener: MetadataListener) -> None:
        """From the next view on; the present one is there to be looked at."""
        self._listeners.append(listener)

    def remove_listener(self, listener: MetadataListener) -> None:
        self._listeners.remove(listener)

    async def wait(
        self,
        until: Callable[[ClusterView], _T | None],
        timeout: float | None = None,
        *,
        what: str = "the cluster's metadata",
    ) -> _T:
        """The first thing that `until` finds in a view and that is not None; requested at once if it is not there.

        What `until` raises is raised here. ApiTimeoutError after `timeout` seconds (default_api_timeout_ms without),
        whether or not a broker can be reached; `what` is for its text.
        """
        self._check_open()
        value = until(self.view)
        if value is not None:
            return value
        if not self._is_pending or self._tracked_since_sent:
            self._request_at_once(f"a call waits for {what}")
        seconds = self._api_timeout(timeout)
        return await self._waiters.wait(what, until, seconds, lambda: self._timeout_error(what, seconds))

    def look_again(self) -> None:
        """Calls that wait look at the present view once more: what they wait for may have come in another way."""
        self._waiters.notify(self.view)

    def hint(
        self,
        topic: str | Uuid,
        partition: int,
        leader: int,
        leader_epoch: int,
        brokers: Iterable[BrokerView] = (),
    ) -> None:
        """Takes the leader that a broker named in a response about something else (KIP-951), if its epoch is newer.

        `view` has it at once. Listeners are notified a moment later: once for all hints of a response, and never in
        the middle of what its receiver is doing. A hint that cannot be taken is a reason to refresh.
        """
        if self._closed:
            return
        view = hinted(self.view, topic, partition, leader, leader_epoch, brokers)
        if view is None:
            refresh = self.refresh if leader in self.view.brokers else self.refresh_now
            refresh(
                f"partition {partition} of {topic} is said to be led by broker {leader}, epoch {leader_epoch}"
            )
            return
        name = view.topic_name(topic) if isinstance(topic, Uuid) else topic
        self._cache.forget(str(name))
        self._take(view)
        if not self._notifies_soon:
            self._notifies_soon = True
            asyncio.get_running_loop().call_soon(self._notify_of_hints)

    async def fresh(
        self,
        topics: Sequence[str] | None,
        *,
        max_age: float | None = None,
        timeout: float | None = None,
    ) -> ClusterView:
        """The cluster with these topics, None for all, from responses of the last `max_age` seconds, or a new one.

        Without `max_age` it is metadata_min_age_ms; 0 always sends a request. Topics are never created. One that does
        not exist has its error in the view. ApiTimeoutError after `timeout` seconds (default_api_timeout_ms without).
        """
        names = None if topics is None else tuple(dict.fromkeys(topics))
        for name in names or ():
            check_name(name)
        deadline = Deadline(self._clock, self._api_timeout(timeout))
        try:
            return await deadline.bound(self._fresh(names, self._min_age if max_age is None else max_age))
        except DeadlinePassed:
            late = self._timeout_error("the cluster's metadata", deadline.seconds)
            raise late from late.__cause__

    # The loop

    async def _run(self) -> None:
        try:
            while True:
                await self._until_due()
                await self._update()
        except ClientClosedError:
            _log.debug("the brokers were closed before metadata: nothing is left to request")

    async def _until_due(self) -> None:
        while True:
            self._changed.clear()
            now = self._clock.monotonic()
            due = self._policy.due(now)
            if due <= now:
                return
            timer = self._clock.call_later(due - now, self._changed.set)
            try:
                await self._changed.wait()
            finally:
                timer.cancel()

    async def _update(self) -> None:
        began = self._clock.monotonic()
        error = None
        try:
            responses = await self._broker_choice.first_response(self._attempt)
        except NoBrokersError as failed:
            error = failed
            _log.debug("%s", failed)
            self._policy.failed(self._clock.monotonic())
        else:
            self._absorb(responses)
            reasons = [
                *refresh_reasons(self.view, self._tracked.names),
                *self._notify(),
                *self._waiters.reasons(),
            ]
            self._policy.succeeded(self._clock.monotonic(), reasons)
            self._responded()
        if (on_metadata := self._hooks.on_metadata) is not None:
            on_metadata(self.view, self._clock.monotonic() - began, error)

    async def _attempt(self, broker: Broker) -> list[QueryResponse]:
        try:
            return await send_queries(broker, self._queries)
        except BaseException:
            self._responded()
            raise

    def _queries(self) -> Sequence[TopicsQuery]:
        """The request leaves now: what was tracked and triggered until here is in it."""
        self._is_pending = True
        self._tracked_since_sent = False
        self._policy.sent()
        return self._tracked.queries(self.view)

    def _responded(self) -> None:
        """No request is pending any more."""
        self._is_pending = False
        self._outdated.clear()

    # Updates

    def _absorb(self, responses: Iterable[QueryResponse]) -> ClusterView:
        """Takes responses into view and cache; all topics that are known then, tracked or not."""
        now = self._clock.monotonic()
        view = replace(self.view, topics=MappingProxyType(self._cache.topics | dict(self.view.topics)))
        for response in responses:
            view = merged(view, response.message, response.version, response.query.topics)
        for response in responses:
            self._cache.put(view, response.query.topics, now)
        for name in self._outdated:
            self._cache.forget(name)
        self._take(restricted(view, lambda name: self._shows(view.topics[name])))
        return view

    def _shows(self, topic: TopicView) -> bool:
        if topic.name in self._outdated:
            return False
        if not self._tracked.all or topic.error_code != GONE or topic.name in self._tracked.names:
            return topic.name in self._tracked
        # It is not tracked by name: it is shown as gone once.
        last = self.view.topics.get(topic.name)
        return last is not None and last.error_code != GONE

    def _take(self, view: ClusterView) -> None:
        self._brokers.update(view.brokers.values())
        self.view = view

    def _notify(self) -> list[str]:
        """Notifies listeners and waiters of the present view; why the listeners need another one soon."""
        self._notifies_soon = False
        reasons = [reason for listener in list(self._listeners) for reason in self._notified(listener)]
        self._waiters.notify(self.view)
        return reasons

    def _notified(self, listener: MetadataListener) -> Iterable[str]:
        try:
            return list(listener.on_metadata(self.view))
        except Exception as error:  # noqa: BLE001 -- a bug in one listener must not end metadata for all others
            self._tasks.crashed(f"metadata of {type(listener).__name__}", error)
            return ()

    def _notify_of_hints(self) -> None:
        # Listeners have been notified of a response that came in between, with the hints in it.
        if self._notifies_soon and not self._closed:
            self._notify_and_trigger()

    def _notify_and_trigger(self) -> None:
        for reason in self._notify():
            self.refresh(reason)

    # Admin calls

    async def _fresh(self, names: tuple[str, ...] | None, max_age: float) -> ClusterView:
        self._check_open()
        topics = self._cache.get(names, max_age, self._clock.monotonic())
        if topics is None:
            # One at a time: what the first requests is what the others find.
            async with self._cache_lock:
                topics = self._cache.get(names, max_age, self._clock.monotonic())
                if topics is None:
                    topics = _named(await self._queried(TopicsQuery(names)), names)
        return replace(self.view, topics=MappingProxyType(topics))

    async def _queried(self, query: TopicsQuery) -> ClusterView:
        failures = 0
        while True:
            self._check_open()
            try:
                responses = await self._broker_choice.first_response(
                    lambda broker: send_queries(broker, lambda: [query])
                )
            except NoBrokersError:
                await self._clock.sleep(self._backoff.delay(failures))
                failures += 1
            else:
                self._check_open()
                view = self._absorb(responses)
                self._notify_and_trigger()
                return view

    # Small things

    def _track_more(self, why: str) -> None:
        self._tracked_since_sent = True
        self._request_at_once(why)

    def _request_at_once(self, why: str) -> None:
        """For what is new: nothing is known of it yet, however young the last response is."""
        _log.debug("metadata is requested at once: %s", why)
        self._policy.trigger_now()
        self._changed.set()

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosedError

    def _api_timeout(self, seconds: float | None) -> float:
        check_timeout(seconds)
        return self._config.default_api_timeout_ms / 1000 if seconds is None else seconds

    def _timeout_error(self, what: str, seconds: float) -> ApiTimeoutError:
        failure = self.failure()
        reason = "" if failure is None else f". The last error was: {failure}"
        error = ApiTimeoutError(
            f"waited {seconds:g} seconds for {what} in vain; a timeout of its own, or default_api_timeout_ms, "
            f"gives it more time{reason}"
        )
        error.__cause__ = failure
        return error


def _named(view: ClusterView, names: Sequence[str] | None) -> dict[str, TopicView]:
    if names is not None:
        return {name: view.topics[name] for name in names}
    return {name: topic for name, topic in view.topics.items() if topic.error_code != GONE}
