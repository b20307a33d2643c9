"""Records, batches and logs with random content: what round trips and other implementations are fed with.

Everything comes from the `Random` that is passed in, so a failure is repeated from its seed.

    log = RandomBatches(Random(7)).log()
    assert decode_records(log.data) == log.records()
    assert decode_records(log.data, read_committed=True, aborted=log.aborted) == log.records(read_committed=True)
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tests.oracle.message_sets import (
    NO_TIMESTAMP,
    Headers,
    OracleMessage,
    message_records,
    wrap,
)
from tests.oracle.records import (
    ABORT,
    CODECS,
    COMMIT,
    CREATE_TIME,
    LEADER_CHANGE,
    LOG_APPEND_TIME,
    Entry,
    OracleBatch,
    OracleRecord,
    build_batch,
    encode_entry,
    end_marker,
)

# Around the sizes at which a length takes one byte more.
_SIZES = [0, 1, 2, 10, 62, 63, 64, 65, 100, 127, 128, 300]
_LARGE_SIZES = [8191, 8192, 20_000, 70_000, 100_000]
_HEADER_NAMES = ["", "trace", "trace", "größe", "注文", "\N{ROCKET}", "x" * 63, "x" * 64]
_NOW = 1_700_000_000_000
_LEGACY_CODECS = ("none", "gzip", "snappy", "lz4")  # zstd came with magic 2


@dataclass(frozen=True)
class Transaction:
    """Of one producer: from the offset of its first batch to that of its marker."""

    producer_id: int
    first_offset: int
    marker_offset: int
    aborted: bool

    def holds(self, entry: Entry) -> bool:
        return (
            isinstance(entry, OracleBatch)
            and entry.transactional
            and entry.producer_id == self.producer_id
            and self.first_offset <= entry.base_offset <= self.marker_offset
        )


@dataclass(frozen=True)
class RandomLog:
    """Batches and messages in the order of their offsets, and the transactions that they belong to."""

    entries: tuple[Entry, ...]
    transactions: tuple[Transaction, ...] = ()

    @property
    def data(self) -> bytes:
        return b"".join(map(encode_entry, self.entries))

    @property
    def aborted(self) -> list[tuple[int, int]]:
        """What a broker sends beside these entries: producer id and first offset, in the order of the markers."""
        ended = sorted(self.transactions, key=lambda t: t.marker_offset)
        return [(t.producer_id, t.first_offset) for t in ended if t.aborted and self._touches(t)]

    @property
    def next_offset(self) -> int:
        return last_offset(self.entries[-1]) + 1

    def records(self, *, fetch_offset: int = 0, read_committed: bool = False) -> list[OracleRecord]:
        """What a consumer gets, known from how the log was made."""
        return [
            record
            for entry in self.entries
            if not (isinstance(entry, OracleBatch) and entry.control)
            if not (read_committed and any(t.aborted and t.holds(entry) for t in self.transactions))
            for record in delivered(entry)
            if record.offset >= fetch_offset
        ]

    def part(self, start: int, stop: int) -> RandomLog:
        """As a fetch sees it that begins or ends inside of the log, and of its transactions."""
        return RandomLog(self.entries[start:stop], self.transactions)

    def _touches(self, transaction: Transaction) -> bool:
        first, last = self.entries[0], self.entries[-1]
        begin = first.base_offset if isinstance(first, OracleBatch) else first.offset
        return transaction.first_offset <= last_offset(last) and transaction.marker_offset >= begin


def delivered(entry: Entry) -> list[OracleRecord]:
    return entry.delivered if isinstance(entry, OracleBatch) else message_records(entry)


def last_offset(entry: Entry) -> int:
    return entry.last_offset if isinstance(entry, OracleBatch) else entry.offset


class RandomBatches:
    """Fills records, batches and logs at random. `largest` bounds a key or a value."""

    def __init__(
        self,
        random: Random,
        *,
        magics: Sequence[int] = (0, 1, 2),
        codecs: Sequence[str] = CODECS,
        largest: int = 100_000,
    ) -> None:
        self.random = random
        self._legacy = [magic for magic in magics if magic < 2]
        self._codecs = codecs
        self._largest = largest

    def log(self, steps: int = 20, *, first_offset: int = 0) -> RandomLog:
        """Transactions of several producers side by side, compacted here and there, in formats old and new."""
        return _Writing(self, first_offset).log(steps)

    def records(self, count: int, *, first_offset: int = 0, timestamps: bool = True) -> list[OracleRecord]:
        """Without gaps, as a producer makes them."""
        return [
            OracleRecord(
                first_offset + i,
                self.timestamp() if timestamps else _NOW,
                self.field(),
                self.field(),
                self.headers(),
            )
            for i in range(count)
        ]

    def batch(
        self,
        base_offset: int = 0,
        *,
        producer_id: int = -1,
        transactional: bool = False,
        compacted: bool | None = None,
    ) -> OracleBatch:
        """With records. If `compacted`, some are gone, maybe the first or the last."""
        random = self.random
        records = self.records(random.choice([1, 1, 2, 3, 10, 40]), first_offset=base_offset)
        last = records[-1].offset
        horizon = None
        if self._maybe(0.25) if compacted is None else compacted:
            kept = sorted(random.sample(range(len(records)), random.randint(1, len(records))))
            records = [records[at] for at in kept]
            last += random.choice([0, 0, 1, 1000])
            horizon = self.timestamp() if self._maybe(0.2) else None
        append_time = self.timestamp() if self._maybe(0.15) else None
        return build_batch(
            records,
            base_offset=base_offset,
            last_offset=last,
            base_timestamp=horizon,
            max_timestamp=append_time,
            leader_epoch=random.randint(-1, 5),
            codec=random.choice(self._codecs),
            timestamp_type=CREATE_TIME if append_time is None else LOG_APPEND_TIME,
            transactional=transactional,
            delete_horizon=horizon is not None,
            producer_id=producer_id,
            producer_epoch=-1 if producer_id < 0 else random.choice([0, 1, 2**15 - 1]),
            base_sequence=-1 if producer_id < 0 else random.choice([0, 7, 2**31 - 2, 2**31 - 1]),
        )

    def empty_batch(self, base_offset: int, *, producer_id: int) -> OracleBatch:
        """What compaction leaves of the last batch of a producer, so that its sequence is not forgotten."""
        return OracleBatch(
            base_offset=base_offset,
            last_offset=base_offset + self.random.choice([0, 3, 500]),
            base_timestamp=NO_TIMESTAMP,
            max_timestamp=self.timestamp(),
            leader_epoch=self.random.randint(-1, 5),
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=self.random.randint(0, 100),
        )

    def leader_change(self, offset: int) -> OracleBatch:
        """A control batch that has nothing to do with transactions."""
        record = OracleRecord(offset, _NOW, struct.pack(">hh", 0, LEADER_CHANGE), self.random.randbytes(20))
        return build_batch([record], leader_epoch=self.random.randint(0, 5), control=True)

    def messages(self, base_offset: int, *, magic: int) -> list[OracleMessage]:
        """Of an older format: some in a row, or as many compressed into one, maybe with gaps."""
        random = self.random
        count = random.choice([1, 2, 5, 20])
        kept = (
            sorted(random.sample(range(count), random.randint(1, count)))
            if self._maybe(0.3)
            else range(count)
        )
        stamped = magic == 1 and self._maybe(0.3)
        messages = [
            OracleMessage(
                magic,
                base_offset + at,
                self.timestamp() if magic == 1 else NO_TIMESTAMP,
                self.field(),
                self.field(),
                timestamp_type=LOG_APPEND_TIME if stamped else CREATE_TIME,
            )
            for at in kept
        ]
        codec = random.choice([codec for codec in self._codecs if codec in _LEGACY_CODECS])
        if codec == "none":
            return messages
        wrapper = wrap(messages, codec, magic=magic, base_offset=base_offset)
        return [dataclasses.replace(wrapper, timestamp=self.timestamp() if magic == 1 else NO_TIMESTAMP)]

    def timestamp(self) -> int:
        """Not in order; rarely none, before 1970 or far from the others."""
        if self._maybe(0.02):
            return self.random.choice([-1, 0, -(2**40), 2**41, 2**62])
        return _NOW + self.random.choice(
            [0, self.random.randint(-70, 70), self.random.randint(-(10**6), 10**6)]
        )

    def field(self) -> bytes | None:
        """A key, or the value of a record or header."""
        if self._maybe(0.15):
            return None
        size = min(self.random.choice(_LARGE_SIZES if self._maybe(0.02) else _SIZES), self._largest)
        if self._maybe(0.5):
            return self.random.randbytes(size)
        return (b'{"order": 4711, "state": "paid"}, ' * (size // 34 + 1))[:size]

    def headers(self) -> Headers:
        count = self.random.choice([0, 0, 0, 1, 3, 70 if self._maybe(0.05) else 2])
        return tuple((self.random.choice(_HEADER_NAMES), self._header_value()) for _ in range(count))

    def _header_value(self) -> bytes | None:
        return None if self._maybe(0.2) else self.random.randbytes(self.random.choice([0, 1, 63, 64]))

    def legacy_magic(self) -> int | None:
        return self.random.choice(self._legacy) if self._legacy else None

    def _maybe(self, chance: float) -> bool:
        return self.random.random() < chance


class _Writing:
    """A log while it is made."""

    def __init__(self, batches: RandomBatches, offset: int) -> None:
        self._batches = batches
        self._random = batches.random
        self._offset = offset
        self._entries: list[Entry] = []
        self._open: dict[int, int] = {}  # producer id -> first offset of its transaction
        self._ended: list[Transaction] = []

    def log(self, steps: int) -> RandomLog:
        moves = [
            self._plain,
            self._idempotent,
            self._transactional,
            self._transactional,
            self._end,
            self._rare,
        ]
        for _ in range(steps):
            self._random.choice(moves)()
            if self._random.random() < 0.1:
                self._offset += self._random.choice([1, 2, 1_000, 2**33])  # what compaction took as a whole
        while self._open:
            self._end()
        if not self._entries:
            self._plain()
        return RandomLog(tuple(self._entries), tuple(self._ended))

    def _plain(self) -> None:
        magic = self._batches.legacy_magic()
        if magic is None or self._random.random() < 0.5:
            self._append(self._batches.batch(self._offset))
        else:
            for message in self._batches.messages(self._offset, magic=magic):
                self._append(message)

    def _idempotent(self) -> None:
        self._append(self._batches.batch(self._offset, producer_id=self._random.choice([1, 2, 2**40])))

    def _transactional(self) -> None:
        producer = self._random.choice([1, 2, 3, 2**62])
        self._open.setdefault(producer, self._offset)
        self._append(self._batches.batch(self._offset, producer_id=producer, transactional=True))

    def _end(self) -> None:
        if not self._open:
            return self._plain()
        producer = self._random.choice(sorted(self._open))
        aborted = self._random.random() < 0.5
        self._ended.append(Transaction(producer, self._open.pop(producer), self._offset, aborted))
        self._append(
            end_marker(
                ABORT if aborted else COMMIT,
                offset=self._offset,
                timestamp=self._batches.timestamp(),
                producer_id=producer,
                producer_epoch=0,
                coordinator_epoch=self._random.randint(0, 9),
                leader_epoch=self._random.randint(0, 5),
            )
        )

    def _rare(self) -> None:
        if self._random.random() < 0.5:
            self._append(self._batches.leader_change(self._offset))
        else:
            self._append(self._batches.empty_batch(self._offset, producer_id=self._random.choice([1, 2])))

    def _append(self, entry: Entry) -> None:
        self._entries.append(entry)
        self._offset = last_offset(entry) + 1
