"""Random logs hold what they promise, and the oracle delivers from them what they were made to deliver."""

from __future__ import annotations

import itertools
from random import Random

import pytest

from tests.oracle.message_sets import CODECS, OracleMessage
from tests.oracle.records import (
    OracleBatch,
    decode_entry,
    decode_records,
    encode_entry,
    next_fetch_offset,
    split_entries,
)
from tests.records.random_records import RandomBatches, RandomLog

SEEDS = range(12)


def make(seed: int) -> RandomLog:
    return RandomBatches(Random(seed), largest=100_000 if seed % 2 == 0 else 300).log(30)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_oracle_delivers_what_the_log_was_made_of(seed: int) -> None:
    log = make(seed)
    data = log.data
    assert [decode_entry(entry) for entry in split_entries(data)] == list(log.entries)
    assert decode_records(data) == log.records()
    assert decode_records(data, read_committed=True, aborted=log.aborted) == log.records(read_committed=True)
    assert next_fetch_offset(data, 0) == log.next_offset


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fetch_that_begins_and_ends_anywhere_skips_the_same_transactions(seed: int) -> None:
    log = RandomBatches(Random(seed), largest=10).log(30)
    random = Random(seed)
    for _ in range(10):
        start, stop = sorted(random.sample(range(len(log.entries) + 1), 2))
        part = log.part(start, stop)
        fetch_offset = random.randint(0, part.next_offset)
        assert decode_records(
            part.data, fetch_offset=fetch_offset, read_committed=True, aborted=part.aborted
        ) == part.records(fetch_offset=fetch_offset, read_committed=True)


def test_the_same_seed_gives_the_same_log() -> None:
    assert make(3) == make(3)
    assert make(3) != make(4)


def test_offsets_grow_and_never_come_twice() -> None:
    for seed in SEEDS:
        offsets = [record.offset for record in make(seed).records()]
        assert all(first < second for first, second in itertools.pairwise(offsets))


def test_only_what_was_asked_for_comes() -> None:
    log = RandomBatches(Random(5), magics=[2], codecs=["lz4"], largest=10).log(60)
    batches = [entry for entry in log.entries if isinstance(entry, OracleBatch)]
    assert len(batches) == len(log.entries)
    assert {batch.codec for batch in batches if not batch.control and batch.records} == {"lz4"}
    assert max(len(record.value or b"") for record in log.records()) == 10


def test_every_feature_comes_up() -> None:
    logs = [make(seed) for seed in SEEDS]
    entries = [entry for log in logs for entry in log.entries]
    batches = [entry for entry in entries if isinstance(entry, OracleBatch)]
    messages = [entry for entry in entries if isinstance(entry, OracleMessage)]
    records = [record for log in logs for record in log.records()]
    features = {
        "every codec": {batch.codec for batch in batches} == set(CODECS),
        "old codecs": {(m.magic, m.codec) for m in messages} == {(m, c) for m in (0, 1) for c in CODECS[:4]},
        "no records": any(not batch.records for batch in batches),
        "control": any(batch.control and not batch.transactional for batch in batches),
        "log append time": any(batch.timestamp_type for batch in batches),
        "old log append time": any(m.timestamp_type and m.codec != "none" for m in messages),
        "delete horizon": any(batch.delete_horizon for batch in batches),
        "first record gone": any(b.records and b.records[0].offset > b.base_offset for b in batches),
        "last record gone": any(b.records and b.records[-1].offset < b.last_offset for b in batches),
        "time before the first": any(r.timestamp < b.base_timestamp for b in batches for r in b.records),
        "null": any(r.key is None for r in records) and any(r.value is None for r in records),
        "empty": any(r.key == b"" for r in records) and any(r.value == b"" for r in records),
        "large": any(len(r.value or b"") == 100_000 for r in records),
        "null header": any(value is None for r in records for _, value in r.headers),
        "same header twice": any(len(dict(r.headers)) < len(r.headers) for r in records),
        "non-ASCII header": any(not name.isascii() for r in records for name, _ in r.headers),
        "aborted": any(t.aborted for log in logs for t in log.transactions),
        "committed": any(not t.aborted for log in logs for t in log.transactions),
        "side by side": any(
            a.first_offset < b.first_offset < a.marker_offset < b.marker_offset
            for log in logs
            for a, b in itertools.permutations(log.transactions, 2)
        ),
        "much": any(len(encode_entry(entry)) > 100_000 for entry in entries),
    }
    assert [feature for feature, came in features.items() if not came] == []
