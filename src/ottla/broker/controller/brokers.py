"""Brokers: registration, heartbeats, sessions, controlled shutdown, and what becomes of those that fall silent.

A broker registers fenced. It is unfenced by a heartbeat that shows it has read its own registration in the
metadata log, and fenced again when its session ends or it wants to leave.

Sessions are the part of the controller's state that is not in the metadata log. A session belongs to one incarnation
of a broker and begins with its first heartbeat.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from ottla.broker.controller import elections
from ottla.broker.controller.decision import Context, Decision
from ottla.broker.metadata.image import BrokerImage
from ottla.broker.metadata.records import (
    BrokerChangeRecord,
    BrokerEndpoint,
    MetadataRecord,
    RegisterBrokerRecord,
    SupportedFeature,
    UnregisterBrokerRecord,
)
from ottla.errors import (
    BrokerError,
    BrokerIdNotRegisteredError,
    DuplicateBrokerRegistrationError,
    InconsistentClusterIdError,
    UnsupportedVersionError,
)
from ottla.wire import Uuid
from ottla.wire.messages import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)


@dataclass(slots=True)
class BrokerSession:
    broker_epoch: int
    last_contact: float
    metadata_offset: int
    shutdown_offset: int | None = None
    """Set in a controlled shutdown: the broker may go once every other active one has read up to here."""


class BrokerSessions:
    """The sessions by broker id. Times are monotonic seconds."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._sessions: dict[int, BrokerSession] = {}

    def get(self, broker_id: int) -> BrokerSession | None:
        return self._sessions.get(broker_id)

    def touch(self, broker_id: int, broker_epoch: int, metadata_offset: int, now: float) -> BrokerSession:
        """A heartbeat has come; the session of an older incarnation gives way."""
        session = self._sessions.get(broker_id)
        if session is None or session.broker_epoch != broker_epoch:
            session = self._sessions[broker_id] = BrokerSession(broker_epoch, now, metadata_offset)
        session.last_contact = now
        session.metadata_offset = metadata_offset
        return session

    def note_offset(self, broker_id: int, metadata_offset: int) -> None:
        """A broker is known to have read the metadata log this far, by other means than a heartbeat."""
        session = self._sessions.get(broker_id)
        if session is not None:
            session.metadata_offset = max(session.metadata_offset, metadata_offset)

    def end(self, broker_id: int) -> None:
        self._sessions.pop(broker_id, None)

    def is_valid(self, broker_id: int, broker_epoch: int, now: float) -> bool:
        session = self._sessions.get(broker_id)
        return (
            session is not None and session.broker_epoch == broker_epoch and not self._is_over(session, now)
        )

    def stale(self, now: float) -> list[int]:
        """Brokers whose session is over, the one that was silent the longest first."""
        over = [
            (session.last_contact, id_)
            for id_, session in self._sessions.items()
            if self._is_over(session, now)
        ]
        return [broker_id for _, broker_id in sorted(over)]

    @property
    def next_expiry(self) -> float | None:
        """When the first session will be over, unless a heartbeat comes."""
        contacts = [session.last_contact for session in self._sessions.values()]
        return min(contacts) + self.timeout if contacts else None

    def _is_over(self, session: BrokerSession, now: float) -> bool:
        return session.last_contact + self.timeout <= now


class _Next(Enum):
    """What a heartbeat brings a broker to."""

    FENCED = auto()
    UNFENCED = auto()
    CONTROLLED_SHUTDOWN = auto()
    SHUTDOWN_NOW = auto()


def register(
    context: Context, request: BrokerRegistrationRequest, cluster_id: str, now: float
) -> Decision[BrokerRegistrationResponse]:
    try:
        record, cleanup = _registration(context, request, cluster_id, now)
    except BrokerError as error:
        return Decision([], BrokerRegistrationResponse(error_code=error.code, broker_epoch=-1))
    return Decision([record, *cleanup], BrokerRegistrationResponse(broker_epoch=record.broker_epoch))


def heartbeat(
    context: Context, request: BrokerHeartbeatRequest, now: float
) -> Decision[BrokerHeartbeatResponse]:
    """Also keeps the session alive, and ends it when the broker may shut down."""
    try:
        context.check_broker_epoch(request.broker_id, request.broker_epoch)
    except BrokerError as error:
        return Decision([], BrokerHeartbeatResponse(error_code=error.code))
    broker = context.image.brokers[request.broker_id]
    session = context.sessions.touch(broker.id, broker.epoch, request.current_metadata_offset, now)
    lost = tuple(each for each in broker.log_dirs if each in request.offline_log_dirs)
    if lost:
        # By itself: what else the heartbeat brings is decided with the next one, when this is known.
        return Decision(_lose(context, broker, lost), BrokerHeartbeatResponse(is_fenced=broker.fenced))
    next_ = _next_state(context, broker, request)
    records = _transition(context, broker, next_)
    if next_ is _Next.SHUTDOWN_NOW:
        # Kafka waits for the session to time out before it lets the id register again; this broker said goodbye.
        context.sessions.end(broker.id)
    elif next_ is _Next.CONTROLLED_SHUTDOWN and session.shutdown_offset is None:
        session.shutdown_offset = context.image.offset + len(records)
    elif next_ is _Next.FENCED:
        session.shutdown_offset = None
    response = BrokerHeartbeatResponse(
        is_caught_up=request.current_metadata_offset >= broker.epoch,
        is_fenced=next_ in (_Next.FENCED, _Next.SHUTDOWN_NOW),
        should_shut_down=next_ is _Next.SHUTDOWN_NOW,
    )
    return Decision(records, response)


def fence(context: Context, broker_id: int) -> list[MetadataRecord]:
    """It is out: its session ends, and others lead. Nothing if it was out already."""
    context.sessions.end(broker_id)
    broker = context.image.brokers.get(broker_id)
    return [] if broker is None or broker.fenced else _fencing(context, broker)


def fence_one_stale(context: Context, now: float) -> list[MetadataRecord]:
    """Fences the broker that has been silent the longest, if its session is over.

    One at a time, so that each finds what the one before has changed: leaders go from one to the next, and the last
    to be heard of is the last to lead.
    """
    for broker_id in context.sessions.stale(now):
        records = fence(context, broker_id)
        if records:
            return records
    return []


def unregister(context: Context, request: UnregisterBrokerRequest) -> Decision[UnregisterBrokerResponse]:
    broker = context.image.brokers.get(request.broker_id)
    if broker is None:
        error = BrokerIdNotRegisteredError(f"Broker ID {request.broker_id} is not currently registered")
        return Decision([], UnregisterBrokerResponse(error_code=error.code, error_message=error.message))
    context.sessions.end(broker.id)
    records: list[MetadataRecord] = [*elections.departure(context, broker.id)]
    records.append(UnregisterBrokerRecord(broker.id, broker.epoch))
    return Decision(records, UnregisterBrokerResponse())


def _registration(
    context: Context, request: BrokerRegistrationRequest, cluster_id: str, now: float
) -> tuple[RegisterBrokerRecord, list[MetadataRecord]]:
    """The registration, and what has to be cleaned up after the incarnation before.

    A broker that knows the epoch of that incarnation has shut it down cleanly: its logs are whole (KIP-966).
    """
    if request.cluster_id != cluster_id:
        raise InconsistentClusterIdError(
            f"Expected cluster ID {cluster_id}, but got cluster ID {request.cluster_id}"
        )
    existing = context.image.brokers.get(request.broker_id)
    amends = existing is not None and existing.incarnation_id == request.incarnation_id
    if existing is not None and not amends and context.sessions.is_valid(existing.id, existing.epoch, now):
        raise DuplicateBrokerRegistrationError(
            "Another broker is registered with that broker id. If the broker was recently restarted this "
            "should self-resolve once the heartbeat manager expires the broker's session."
        )
    _check_features(context, request)
    cleanup: list[MetadataRecord] = []
    if not amends:
        context.sessions.end(request.broker_id)
        clean = existing is not None and existing.epoch == request.previous_broker_epoch
        unclean_shutdown = context.keeps_elr and not clean
        cleanup.extend(elections.departure(context, request.broker_id, unclean_shutdown=unclean_shutdown))
    record = RegisterBrokerRecord(
        broker_id=request.broker_id,
        # As in KRaft the epoch is the offset of this record, so a later incarnation always has a higher one.
        broker_epoch=existing.epoch if existing is not None and amends else context.image.offset + 1,
        incarnation_id=request.incarnation_id,
        listeners=tuple(
            BrokerEndpoint(listener.name, listener.host, listener.port, listener.security_protocol)
            for listener in request.listeners
        ),
        rack=request.rack,
        fenced=existing.fenced if existing is not None and amends else True,
        in_controlled_shutdown=existing is not None and amends and existing.in_controlled_shutdown,
        features=tuple(
            SupportedFeature(feature.name, feature.min_supported_version, feature.max_supported_version)
            for feature in request.features
        ),
        log_dirs=tuple(request.log_dirs),
    )
    return record, cleanup


def _check_features(context: Context, request: BrokerRegistrationRequest) -> None:
    """A broker has to support the level that each feature of the cluster runs at."""
    for feature in request.features:
        finalized = context.image.features.get(feature.name, 0)
        if finalized and not feature.min_supported_version <= finalized <= feature.max_supported_version:
            raise UnsupportedVersionError(
                f"Unable to register because the broker does not support finalized version {finalized} of "
                f"{feature.name}. The broker wants a version between {feature.min_supported_version} and "
                f"{feature.max_supported_version}, inclusive."
            )


def _next_state(context: Context, broker: BrokerImage, request: BrokerHeartbeatRequest) -> _Next:
    session = context.sessions.get(broker.id)
    if session is not None and session.shutdown_offset is not None:
        return _next_in_shutdown(context, broker, session.shutdown_offset)
    if broker.fenced:
        if request.want_shut_down:
            return _Next.SHUTDOWN_NOW
        caught_up = request.current_metadata_offset >= broker.epoch
        return _Next.UNFENCED if caught_up and not request.want_fence else _Next.FENCED
    if request.want_fence:
        return _Next.SHUTDOWN_NOW if request.want_shut_down else _Next.FENCED
    if request.want_shut_down:
        return _Next.CONTROLLED_SHUTDOWN if _leads_any(context, broker.id) else _Next.SHUTDOWN_NOW
    return _Next.UNFENCED


def _next_in_shutdown(context: Context, broker: BrokerImage, shutdown_offset: int) -> _Next:
    """It may go when it leads nothing and every broker that stays has read which replicas lead instead."""
    active = [other.id for other in context.image.brokers.values() if other.active]
    sessions = [context.sessions.get(broker_id) for broker_id in active]
    everyone_knows = all(
        session is None or session.metadata_offset >= shutdown_offset for session in sessions
    )
    if everyone_knows and not _leads_any(context, broker.id):
        return _Next.SHUTDOWN_NOW
    return _Next.CONTROLLED_SHUTDOWN


def _transition(context: Context, broker: BrokerImage, next_: _Next) -> list[MetadataRecord]:
    if next_ in (_Next.FENCED, _Next.SHUTDOWN_NOW):
        return [] if broker.fenced else _fencing(context, broker)
    if next_ is _Next.UNFENCED:
        if not broker.fenced:
            return []
        unfenced = BrokerChangeRecord(broker.id, broker.epoch, fenced=False)
        return [unfenced, *elections.arrival(context, broker.id)]
    if broker.in_controlled_shutdown:
        return []
    leaves = BrokerChangeRecord(broker.id, broker.epoch, in_controlled_shutdown=True)
    return [leaves, *elections.departure(context, broker.id)]


def _fencing(context: Context, broker: BrokerImage) -> list[MetadataRecord]:
    return [
        *elections.departure(context, broker.id),
        BrokerChangeRecord(broker.id, broker.epoch, fenced=True),
    ]


def _lose(context: Context, broker: BrokerImage, lost: tuple[Uuid, ...]) -> list[MetadataRecord]:
    """Directories of a broker have failed (KIP-858): others lead what lies there."""
    left = tuple(each for each in broker.log_dirs if each not in lost)
    concerned = elections.in_directories(context, broker.id, lost)
    return [
        BrokerChangeRecord(broker.id, broker.epoch, log_dirs=left),
        *elections.departure(context, broker.id, only=concerned),
    ]


def _leads_any(context: Context, broker_id: int) -> bool:
    return any(partition.leader == broker_id for _, _, partition in context.image.all_partitions())
