"""What a fetch brought of one partition: records to buffer, another broker to go to, or an error and its remedy.

Called between two awaits, with a cursor that waits for just this answer. Afterwards the cursor is not in flight.

Truncation (KIP-320, KIP-595): a request names the epoch of the last batch that was consumed, and a leader whose log
took another way answers with the place where the ways part. What was consumed behind it is gone: the reader gets a
DataLossError, and goes on from there unless auto_offset_reset is "none".
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.client.consume.cursor import UNKNOWN, Cursor
from ottla.client.consume.fetch_errors import Remedy, remedy_for
from ottla.client.consume.fetched import FetchedPartition, span
from ottla.client.metadata import BrokerView
from ottla.errors import BrokerError, CorruptBatchError, DataLossError, from_code
from ottla.wire.messages import FetchResponse

if TYPE_CHECKING:
    from ottla.client.consume.session import Session

_logger = logging.getLogger("ottla.client.consume.consumer")


def judge(
    session: Session,
    node_id: int,
    cursor: Cursor,
    data: FetchResponse.PartitionData,
    response: FetchResponse,
) -> FetchedPartition | None:
    """The part to buffer, if there is one."""
    cursor.update(data.high_watermark, data.last_stable_offset, data.log_start_offset)
    error = from_code(data.error_code, topic=cursor.topic, partition=cursor.partition, broker=node_id)
    if error is not None:
        _take_hint(session, cursor, data, response)
        _refused(session, node_id, cursor, error)
        return None
    if data.diverging_epoch is not None and data.diverging_epoch.end_offset >= 0:
        _diverged(session, cursor, data.diverging_epoch.end_offset)
        return None
    if data.preferred_read_replica >= 0 and not data.records:
        _go_to(session, cursor, data.preferred_read_replica)
        return None
    if not data.records:
        cursor.release()
        cursor.clear_backoff()
        return None
    return _part(session, node_id, cursor, data)


def _part(
    session: Session, node_id: int, cursor: Cursor, data: FetchResponse.PartitionData
) -> FetchedPartition | None:
    assert data.records is not None
    next_offset, epoch, _, size = span(data.records, cursor.stop)
    if next_offset <= cursor.offset:
        session.fail(cursor, _unreadable(cursor, len(data.records)))
        return None
    aborted = [(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()]
    part = FetchedPartition(
        cursor.tp,
        data.records[:size],
        offset=cursor.offset,
        epoch_before=cursor.last_consumed_epoch,
        next_offset=next_offset,
        epoch=epoch,
        generation=cursor.generation,
        aborted=aborted if session.is_committed else None,
        high_watermark=data.high_watermark,
        last_stable_offset=data.last_stable_offset,
        stop=cursor.stop,
        node_id=node_id,
        read_at=session.now(),
        check_crc=session.config.check_crcs,
    )
    cursor.measure(size, next_offset - cursor.offset)
    cursor.buffer(next_offset, epoch)
    return part


def _unreadable(cursor: Cursor, size: int) -> CorruptBatchError:
    return CorruptBatchError(
        f"topic {cursor.topic}, partition {cursor.partition}: {size} bytes came for offset {cursor.offset}, and no "
        "whole batch is among them; raise max_partition_fetch_bytes and fetch_max_bytes, or seek behind it",
        topic=cursor.topic,
        partition=cursor.partition,
        offset=cursor.offset,
        next_offset=cursor.offset + 1,
    )


def _go_to(session: Session, cursor: Cursor, replica: int) -> None:
    """KIP-392: the leader knows a replica that is nearer."""
    cursor.release()
    if replica in session.metadata.view.brokers:
        cursor.prefer(replica, session.now() + session.config.metadata_max_age_ms / 1000)
        session.place(cursor)
    else:
        # The leader would name it again and again, and nothing would ever be read.
        session.back_off(cursor)
        session.metadata.refresh_now(f"{cursor.tp} is to be read from broker {replica}, which is not known")


def _take_hint(
    session: Session, cursor: Cursor, data: FetchResponse.PartitionData, response: FetchResponse
) -> None:
    """KIP-951: who answers with an error often knows who would not."""
    leader = data.current_leader
    if leader is None or leader.leader_id < 0 or leader.leader_epoch < 0:
        return
    brokers = [BrokerView(each.node_id, each.host, each.port, each.rack) for each in response.node_endpoints]
    session.metadata.hint(cursor.topic, cursor.partition, leader.leader_id, leader.leader_epoch, brokers)


def _refused(session: Session, node_id: int, cursor: Cursor, error: BrokerError) -> None:
    remedy = remedy_for(error)
    cursor.release()
    if cursor.back_to_leader() and node_id != cursor.leader:
        # A follower may lag, or be one no longer: what it says of an offset does not count.
        session.back_off(cursor)
        session.place(cursor)
    elif remedy is Remedy.RESET:
        session.reset_position(cursor, f"offset {cursor.offset} is out of range")
    elif remedy is Remedy.RAISE:
        session.fail(cursor, error)
    else:
        if remedy is Remedy.REFRESH:
            session.metadata.refresh_now(str(error))
        session.trouble(cursor, error)


def _diverged(session: Session, cursor: Cursor, end_offset: int) -> None:
    wanted = cursor.offset
    new = min(end_offset, wanted)
    resets = session.config.auto_offset_reset != "none"
    error = DataLossError(
        f"topic {cursor.topic}, partition {cursor.partition}: the log was truncated: records up to offset {wanted} "
        f"were read, but those from {new} on are others now; "
        + (f"reading goes on at {new}" if resets else "auto_offset_reset is 'none': seek to go on"),
        topic=cursor.topic,
        partition=cursor.partition,
        wanted_offset=wanted,
        new_offset=new,
    )
    if not resets:
        session.fail(cursor, error)
        return
    _logger.warning("%s", error)
    cursor.rewind(new, UNKNOWN)
    session.tell_reset(cursor, wanted, new, "the log was truncated")
    session.raise_to_reader(error, cursor, position=new)
    session.place(cursor)
