"""FetchSessionHandler (KIP-227): what one broker remembers of our fetches, so that a request says only what changed.

    session id   epoch   meaning
    0            0       a full request, which opens a session
    n            0       the same, in place of session n
    n            > 0     the next request of session n: changes and forgotten partitions only
    n            -1      the end of session n

One per source. Pure: it plans requests and follows their responses. Partitions are named by topic id where the
version has ids (13 and up), by name below; a session has one kind only.

Invariant: `session_partitions` is what the broker holds after it has served every request that was planned; if that
is in doubt (a lost connection, an error code), `reset` begins anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ottla.config import ClientConfig
from ottla.errors import FetchSessionIdNotFoundError
from ottla.wire import Uuid
from ottla.wire.messages import FetchRequest
from ottla.wire.templates import INT32, INT64, FetchedTemplate, NumbersTemplate

FINAL_EPOCH: Final = -1
FULL_EPOCH: Final = 0
TOPIC_IDS_SINCE: Final = 13
_LARGEST_EPOCH: Final = 0x7FFFFFFF
_CONSUMER: Final = -1
"""In place of a replica's id."""


class FetchPosition(NamedTuple):
    """One partition as a request names it: from which offset, by which epochs, and how much."""

    topic: str
    topic_id: Uuid
    partition: int
    offset: int
    leader_epoch: int
    last_fetched_epoch: int
    max_bytes: int


class FetchPlan(NamedTuple):
    """What goes into a request."""

    session_id: int
    epoch: int
    changed: list[FetchPosition]
    forgotten: list[tuple[str, Uuid, int]]


class FetchSessionHandler:
    """The state of one session, and of having none."""

    __slots__ = ("_epoch", "_id", "_uses_ids", "session_partitions")

    def __init__(self) -> None:
        self._id = 0
        self._epoch = FULL_EPOCH
        self._uses_ids = False
        self.session_partitions: dict[tuple[str, Uuid, int], FetchPosition] = {}

    def plan(self, positions: Sequence[FetchPosition], *, uses_ids: bool) -> FetchPlan:
        """The next request for exactly these partitions."""
        if uses_ids != self._uses_ids:
            self.reset()
            self._uses_ids = uses_ids
        known = self.session_partitions
        if len(positions) == 1 == len(known) and self._epoch != FULL_EPOCH:
            (position,) = positions
            key = position[:3]
            if key in known:
                changed = [position] if known[key] != position else []
                known[key] = position
                return FetchPlan(self._id, self._epoch, changed, [])
        now = {each[:3]: each for each in positions}
        if self._epoch == FULL_EPOCH:
            self.session_partitions = now
            return FetchPlan(self._id, FULL_EPOCH, list(now.values()), [])
        changed = [each for key, each in now.items() if known.get(key) != each]
        forgotten = [key for key in known if key not in now]
        self.session_partitions = now
        return FetchPlan(self._id, self._epoch, changed, forgotten)

    def succeeded(self, session_id: int | None = None) -> None:
        """A response without an error, of the session there is or of this one; 0 is a broker that gives none."""
        if session_id is None:
            session_id = self._id
        if session_id == 0:
            self._id, self._epoch, self.session_partitions = 0, FULL_EPOCH, {}
            return
        self._id = session_id
        self._epoch = 1 if self._epoch == _LARGEST_EPOCH else self._epoch + 1

    def failed(self, code: int) -> None:
        """An error of the whole response."""
        self.reset()
        if code == FetchSessionIdNotFoundError.code:
            self._id = 0

    def reset(self) -> None:
        """The next request is a full one, and takes the place of the session that there may be."""
        self._epoch = FULL_EPOCH
        self.session_partitions = {}

    def end(self) -> FetchPlan | None:
        """The last request; None where there is no session to end."""
        if self._id == 0:
            return None
        plan = FetchPlan(self._id, FINAL_EPOCH, [], [])
        self._id = 0
        self.reset()
        return plan


class NextFetch:
    """The request for what comes next of one partition: encoded once, as only its epoch and its offset change."""

    __slots__ = ("_position", "_session_id", "_template", "api", "decode", "key")

    def __init__(self, plan: FetchPlan, template: NumbersTemplate, fetched: FetchedTemplate) -> None:
        self._session_id = plan.session_id
        self._position = position = plan.changed[0]
        self._template = template
        self.api = template.api
        self.decode = fetched.decode
        """Recognizes the response with records of this partition alone."""
        uses_ids = template.version >= TOPIC_IDS_SINCE
        self.key = (position.topic_id if uses_ids else position.topic, position.partition)
        """The partition, as responses name it."""

    @classmethod
    def of(
        cls, plan: FetchPlan, version: int, config: ClientConfig, isolation_level: int
    ) -> NextFetch | None:
        """For a plan that requests one partition, and changes nothing else in its session; None for any other."""
        if len(plan.changed) != 1 or plan.epoch <= FULL_EPOCH or plan.forgotten:
            return None
        (position,) = plan.changed
        stand_in = FetchPlan(plan.session_id, INT32, [position._replace(offset=INT64)], [])
        request = fetch_request(stand_in, config, isolation_level)
        try:
            template = NumbersTemplate(request, version, config.client_id)
            return cls(plan, template, FetchedTemplate(request, version))
        except ValueError:
            # One in a hundred million: an id has the bytes that stand for a number.
            return None

    def fits(self, plan: FetchPlan, version: int) -> bool:
        """Whether this is the request for the plan."""
        if len(plan.changed) != 1 or plan.forgotten:
            return False
        mine, its = self._position, plan.changed[0]
        return (
            plan.session_id == self._session_id
            and plan.epoch > FULL_EPOCH
            and version == self._template.version
            and mine[:3] == its[:3]
            and mine[4:] == its[4:]
        )

    def encode_for(self, plan: FetchPlan) -> Callable[[int], bytes]:
        """Gives the request for a plan that it fits, by its correlation id."""
        return lambda correlation_id: self._template.encode(
            correlation_id, plan.epoch, plan.changed[0].offset
        )


def fetch_request(
    plan: FetchPlan, config: ClientConfig, isolation_level: int, *, waits: bool = True
) -> FetchRequest:
    """The request for a plan; without `waits` the broker responds at once."""
    topics: dict[tuple[str, Uuid], FetchRequest.FetchTopic] = {}
    for each in plan.changed:
        topic = topics.get(each[:2])
        if topic is None:
            topic = FetchRequest.FetchTopic(topic=each.topic, topic_id=each.topic_id, partitions=[])
            topics[each[:2]] = topic
        topic.partitions.append(
            FetchRequest.FetchPartition(
                partition=each.partition,
                current_leader_epoch=each.leader_epoch,
                fetch_offset=each.offset,
                last_fetched_epoch=each.last_fetched_epoch,
                partition_max_bytes=each.max_bytes,
            )
        )
    return FetchRequest(
        replica_id=_CONSUMER,
        max_wait_ms=config.fetch_max_wait_ms if waits else 0,
        min_bytes=config.fetch_min_bytes,
        max_bytes=config.fetch_max_bytes,
        isolation_level=isolation_level,
        session_id=plan.session_id,
        session_epoch=plan.epoch,
        topics=list(topics.values()),
        forgotten_topics_data=_forgotten(plan) if plan.forgotten else [],
        rack_id=config.client_rack,
    )


def _forgotten(plan: FetchPlan) -> list[FetchRequest.ForgottenTopic]:
    topics: dict[tuple[str, Uuid], FetchRequest.ForgottenTopic] = {}
    for topic, topic_id, partition in plan.forgotten:
        forgotten = topics.get((topic, topic_id))
        if forgotten is None:
            forgotten = FetchRequest.ForgottenTopic(topic=topic, topic_id=topic_id, partitions=[])
            topics[topic, topic_id] = forgotten
        forgotten.partitions.append(partition)
    return list(topics.values())
