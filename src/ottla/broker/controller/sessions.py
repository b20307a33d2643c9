"""Who has been heard of lately: the sessions of brokers, kept alive by heartbeats.

This is the part of the controller's state that is not in the metadata log. A session belongs to one incarnation
of a broker and begins with its first heartbeat. What follows from a session's end is decided in brokers.py.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Session:
    broker_epoch: int
    last_contact: float
    metadata_offset: int
    shutdown_offset: int | None = None
    """Set in a controlled shutdown: the broker may go once every other active one has read up to here."""


class BrokerSessions:
    """The sessions by broker id. Times are monotonic seconds."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._sessions: dict[int, Session] = {}

    def get(self, broker_id: int) -> Session | None:
        return self._sessions.get(broker_id)

    def touch(self, broker_id: int, broker_epoch: int, metadata_offset: int, now: float) -> Session:
        """A heartbeat has come; the session of an older incarnation gives way."""
        session = self._sessions.get(broker_id)
        if session is None or session.broker_epoch != broker_epoch:
            session = self._sessions[broker_id] = Session(broker_epoch, now, metadata_offset)
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

    def _is_over(self, session: Session, now: float) -> bool:
        return session.last_contact + self.timeout <= now
