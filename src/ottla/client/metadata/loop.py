"""Metadata: the one place that asks who leads what, and tells it to everybody who needs to know.

    metadata.track("orders", create=True)
    topic = await metadata.wait(lambda view: view.topics.get("orders"), timeout=10)

One task asks, one request at a time. When is pace.py's, whom asking.py's, what tracked.py's; how answers become
views is in merge.py. A view is applied in one go between two turns of the event loop: first the brokers are told,
then the listeners, then whoever waits.

Invariants: there is never more than one request of the loop under way. Whoever looks at `view` sees one answer,
never half of it. After `close` nobody is told anything, and nobody waits.
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
from ottla.client.metadata.asking import Answer, Asking, put
from ottla.client.metadata.cache import TopicCache
from ottla.client.metadata.merge import GONE, hinted, merged, restricted, troubles
from ottla.client.metadata.pace import Pace
from ottla.client.metadata.tracked import Question, TrackedTopics, check_name
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
        """Nothing is asked before `start`, and then when somebody needs it."""
        self._config = config
        self._clock = runtime.clock
        self._hooks = hooks
        self._brokers = brokers
        self._tasks = tasks
        self._backoff = Backoff(
            config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000, runtime.random
        )
        self._min_age = config.metadata_min_age_ms / 1000
        self._pace = Pace(self._min_age, config.metadata_max_age_ms / 1000, self._backoff, runtime.random)
        self._asking = Asking(config, runtime.clock, brokers)
        self._tracked = TrackedTopics()
        self._cache = TopicCache(self._min_age)
        self._cache_lock = asyncio.Lock()
        self._waiters = Waiters(runtime.clock)
        self._listeners: list[MetadataListener] = []
        self._inside: list[tuple[Callable[[], None], asyncio.Future[None]]] = []
        self._changed = asyncio.Event()
        self._under_way = False
        self._tracked_since_sent = False
        self._tells_soon = False
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self.view = ClusterView()
        """The cluster as it is known now; before the first answer it has no brokers."""

    def start(self) -> None:
        """Begins; the first request leaves as soon as something is tracked, waited for or refreshed."""
        self._pace.begin(self._clock.monotonic())
        self._task = self._tasks.spawn(self._run(), "metadata")

    async def close(self) -> None:
        """Ends the loop at once; whoever waits gets a ClientClosedError."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._waiters.fail(ClientClosedError)
        inside, self._inside = self._inside, []
        for _, done in inside:
            if not done.done():
                done.set_exception(ClientClosedError())

    # What is asked for

    def track(self, topic: str, create: bool | None = None) -> None:
        """Asks for a topic from now on, until as many `untrack`; at once, if it is not known.

        `create` says that brokers may create it, if they are set up to; None leaves it to allow_auto_create_topics.
        """
        check_name(topic)
        known = topic in self._tracked and topic in self.view.topics
        self._tracked.track(topic, self._config.allow_auto_create_topics if create is None else create)
        if not known:
            self._asks_for_more(f"topic {topic} is new")

    def untrack(self, topic: str) -> None:
        """The view is without it as soon as nobody needs it."""
        if self._tracked.untrack(topic):
            self.view = restricted(self.view, self._tracked.__contains__)

    def track_all(self) -> None:
        """Asks for every topic from now on, until as many `untrack_all`: for subscriptions by pattern.

        A topic that vanishes is shown as gone in one view, and then no more, unless it is tracked by name.
        """
        if not self._tracked.all:
            self._asks_for_more("all topics are wanted")
        self._tracked.track_all()

    def untrack_all(self) -> None:
        if self._tracked.untrack_all():
            self.view = restricted(self.view, self._tracked.__contains__)

    # When it is asked for

    def refresh(self, why: str) -> None:
        """Asks again, but not before metadata_min_age_ms have passed since the last answer."""
        _log.debug("metadata is to be refreshed: %s", why)
        self._pace.trigger()
        self._changed.set()

    def refresh_now(self, why: str) -> None:
        """Asks at once, or soon after the request that is under way; after failures, when the back-off is over.

        For whoever has found out that what is known is wrong. However many do, and however often, there are no more
        than about ten requests per second.
        """
        _log.debug("metadata is to be refreshed now: %s", why)
        self._pace.trigger_urgent()
        self._changed.set()

    def failure(self) -> NoBrokersError | None:
        """Why there has been no answer since the last one, for whoever gives up waiting; None if nothing failed."""
        return self._asking.error()

    @property
    def is_failing(self) -> bool:
        """Whether a broker has failed to answer since the last answer."""
        return self._asking.is_failing

    # Who is told

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
        """The first thing that `until` finds in a view and that is not None; asks at once if it is not there yet.

        What `until` raises is raised here. ApiTimeoutError after `timeout` seconds (default_api_timeout_ms without),
        whether or not a broker can be reached; `what` is for its text.
        """
        self._check_open()
        value = until(self.view)
        if value is not None:
            return value
        if not self._under_way or self._tracked_since_sent:
            self._ask_at_once(f"a call waits for {what}")
        seconds = self._api_timeout(timeout)
        return await self._waiters.wait(what, until, seconds, lambda: self._too_late(what, seconds))

    async def run_inside(self, function: Callable[[], None]) -> None:
        """Calls `function` between two updates: while no request is under way, whose answer would be older."""
        self._check_open()
        if not self._under_way:
            function()
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._inside.append((function, done))
        await done

    def hint(
        self,
        topic: str | Uuid,
        partition: int,
        leader: int,
        leader_epoch: int,
        brokers: Iterable[BrokerView] = (),
    ) -> None:
        """Takes the leader that a broker named in an answer about something else (KIP-951), if its epoch is newer.

        `view` has it at once. Listeners are told a moment later: once for all hints of an answer, and never in
        the middle of what its receiver is doing. A hint that cannot be taken is a reason to ask.
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
        if not self._tells_soon:
            self._tells_soon = True
            asyncio.get_running_loop().call_soon(self._tell_of_hints)

    async def fresh(
        self,
        topics: Sequence[str] | None,
        *,
        max_age: float | None = None,
        timeout: float | None = None,
    ) -> ClusterView:
        """The cluster with these topics, None for all, from answers of the last `max_age` seconds; asks if need be.

        Without `max_age` it is metadata_min_age_ms; 0 always asks. Topics are never created. One that does not exist
        has its error in the view. ApiTimeoutError after `timeout` seconds (default_api_timeout_ms without).
        """
        names = None if topics is None else tuple(dict.fromkeys(topics))
        for name in names or ():
            check_name(name)
        deadline = Deadline(self._clock, self._api_timeout(timeout))
        try:
            return await deadline.bound(self._fresh(names, self._min_age if max_age is None else max_age))
        except DeadlinePassed:
            late = self._too_late("the cluster's metadata", deadline.seconds)
            raise late from late.__cause__

    # The loop

    async def _run(self) -> None:
        try:
            while True:
                await self._until_due()
                await self._update()
        except ClientClosedError:
            _log.debug("the brokers were closed before metadata: nothing is left to ask")

    async def _until_due(self) -> None:
        while True:
            self._changed.clear()
            now = self._clock.monotonic()
            due = self._pace.due(now)
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
            answers = await self._asking.first_answer(self._attempt)
        except NoBrokersError as failed:
            error = failed
            _log.debug("%s", failed)
            self._pace.failed(self._clock.monotonic())
        else:
            self._absorb(answers)
            reasons = [*troubles(self.view, self._tracked.names), *self._tell(), *self._waiters.reasons()]
            self._pace.answered(self._clock.monotonic(), reasons)
            self._pause()
        if (tell := self._hooks.on_metadata) is not None:
            tell(self.view, self._clock.monotonic() - began, error)

    async def _attempt(self, broker: Broker) -> list[Answer]:
        try:
            return await put(broker, self._questions)
        except BaseException:
            self._pause()
            raise

    def _questions(self) -> Sequence[Question]:
        """The request leaves now: what was tracked and triggered until here is in it."""
        self._under_way = True
        self._tracked_since_sent = False
        self._pace.sent()
        return self._tracked.questions(self.view)

    def _pause(self) -> None:
        """No request is under way any more: time for what has to happen between two updates."""
        self._under_way = False
        if self._closed:
            return
        inside, self._inside = self._inside, []
        for function, done in inside:
            if done.done():
                continue
            try:
                function()
            except Exception as error:  # noqa: BLE001 -- whatever it is, it goes to whoever awaits it
                done.set_exception(error)
            else:
                done.set_result(None)

    # Updates

    def _absorb(self, answers: Iterable[Answer]) -> ClusterView:
        """Takes answers into view and cache; all topics that are known then, tracked or not."""
        now = self._clock.monotonic()
        view = replace(self.view, topics=MappingProxyType(self._cache.topics | dict(self.view.topics)))
        for answer in answers:
            view = merged(view, answer.response, answer.version, answer.question.topics)
        for answer in answers:
            self._cache.put(view, answer.question.topics, now)
        self._take(restricted(view, lambda name: self._shows(view.topics[name])))
        return view

    def _shows(self, topic: TopicView) -> bool:
        if not self._tracked.all or topic.error_code != GONE or topic.name in self._tracked.names:
            return topic.name in self._tracked
        # Nobody asked for it by name: it is shown as gone once.
        last = self.view.topics.get(topic.name)
        return last is not None and last.error_code != GONE

    def _take(self, view: ClusterView) -> None:
        self._brokers.update(view.brokers.values())
        self.view = view

    def _tell(self) -> list[str]:
        """Tells listeners and waiters of the present view; why the listeners want another one soon."""
        self._tells_soon = False
        reasons = [reason for listener in list(self._listeners) for reason in self._told(listener)]
        self._waiters.look(self.view)
        return reasons

    def _told(self, listener: MetadataListener) -> Iterable[str]:
        try:
            return list(listener.on_metadata(self.view))
        except Exception as error:  # noqa: BLE001 -- a bug in one listener must not end metadata for all others
            self._tasks.crashed(f"metadata of {type(listener).__name__}", error)
            return ()

    def _tell_of_hints(self) -> None:
        # An answer that came in between has been told already, with the hints in it.
        if self._tells_soon and not self._closed:
            self._tell_and_trigger()

    def _tell_and_trigger(self) -> None:
        for reason in self._tell():
            self.refresh(reason)

    # Admin calls

    async def _fresh(self, names: tuple[str, ...] | None, max_age: float) -> ClusterView:
        self._check_open()
        topics = self._cache.get(names, max_age, self._clock.monotonic())
        if topics is None:
            # One at a time: what the first asks for is what the others find.
            async with self._cache_lock:
                topics = self._cache.get(names, max_age, self._clock.monotonic())
                if topics is None:
                    topics = _named(await self._asked(Question(names)), names)
        return replace(self.view, topics=MappingProxyType(topics))

    async def _asked(self, question: Question) -> ClusterView:
        failures = 0
        while True:
            self._check_open()
            try:
                answers = await self._asking.first_answer(lambda broker: put(broker, lambda: [question]))
            except NoBrokersError:
                await self._clock.sleep(self._backoff.delay(failures))
                failures += 1
            else:
                self._check_open()
                view = self._absorb(answers)
                self._tell_and_trigger()
                return view

    # Small things

    def _asks_for_more(self, why: str) -> None:
        self._tracked_since_sent = True
        self._ask_at_once(why)

    def _ask_at_once(self, why: str) -> None:
        """For what is new: nothing is known of it yet, however young the last answer is."""
        _log.debug("metadata is asked for at once: %s", why)
        self._pace.trigger_now()
        self._changed.set()

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosedError

    def _api_timeout(self, seconds: float | None) -> float:
        check_timeout(seconds)
        return self._config.default_api_timeout_ms / 1000 if seconds is None else seconds

    def _too_late(self, what: str, seconds: float) -> ApiTimeoutError:
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
