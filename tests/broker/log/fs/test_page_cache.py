"""What a power loss takes: nothing that was synced, and of the rest anything, in the order of each directory."""

from __future__ import annotations

from collections import Counter
from random import Random

from ottla.broker.log.fs.page_cache import SECTOR, CachedFile, CachedNames, Fate

SEEDS = range(200)


def content(file: CachedFile) -> bytes:
    return b"".join(file.content.read(0, file.content.size))


def after_power_loss(file: CachedFile, seed: int) -> tuple[bytes, Counter[Fate]]:
    fates: Counter[Fate] = Counter()
    file.lose_power(Random(seed), fates)
    return content(file), fates


def one_append(seed: int) -> tuple[bytes, Fate]:
    file = CachedFile("a")
    file.append(b"s" * 700)
    file.sync()
    file.append(b"u" * 3000)
    seen, fates = after_power_loss(file, seed)
    (fate,) = fates
    assert seen[:700] == b"s" * 700
    return seen[700:], fate


def test_an_append_that_was_not_synced_is_kept_lost_torn_or_has_sectors_of_zeros() -> None:
    found: Counter[Fate] = Counter()
    for seed in SEEDS:
        rest, fate = one_append(seed)
        found[fate] += 1
        if fate is Fate.KEPT:
            assert rest == b"u" * 3000
        elif fate is Fate.LOST:
            assert rest == b""
        elif fate is Fate.TORN:
            assert rest == b"u" * len(rest)
            assert len(rest) < 3000
        else:
            assert fate is Fate.ZEROED
            assert len(rest) == 3000
            assert 0 < rest.count(0) <= 3000
            # A sector is written as a whole or not at all.
            first = SECTOR - 700 % SECTOR
            sectors = [rest[:first], *(rest[at : at + SECTOR] for at in range(first, 3000, SECTOR))]
            assert all(len(set(sector)) == 1 for sector in sectors)
    assert set(found) == {Fate.KEPT, Fate.LOST, Fate.TORN, Fate.ZEROED}


def test_an_append_behind_one_that_was_lost_is_behind_a_hole() -> None:
    holes = 0
    for seed in SEEDS:
        file = CachedFile("a")
        file.append(b"a" * 100)
        file.append(b"b" * 100)
        seen, fates = after_power_loss(file, seed)
        holes += seen == bytes(100) + b"b" * 100 and fates[Fate.LOST] == 1
    assert holes


def test_a_truncation_that_was_not_synced_may_not_have_happened() -> None:
    found = set()
    for seed in SEEDS:
        file = CachedFile("a")
        file.append(b"a" * 10)
        file.sync()
        file.truncate(4)
        file.append(b"b" * 3)
        assert content(file) == b"aaaabbb"
        found.add(after_power_loss(file, seed)[0])
    assert {b"aaaabbb", b"a" * 10, b"aaaa", b"aaaabbbaaa"} <= found
    assert all(seen.startswith(b"aaaa") for seen in found)


def test_what_was_synced_survives_whatever_comes_behind_it() -> None:
    for seed in SEEDS:
        random = Random(seed)
        file, synced = CachedFile("a"), b""
        for _ in range(random.randrange(1, 20)):
            step = random.random()
            if step < 0.6:
                file.append(random.randbytes(random.randrange(1500)))
            elif step < 0.8:
                size = random.randrange(file.content.size + 1)
                file.truncate(size)
                synced = synced[:size]
            else:
                file.sync()
                synced = content(file)
        seen, _ = after_power_loss(file, seed)
        assert seen.startswith(synced)
        # What has come up is on the disk, and stays.
        assert after_power_loss(file, seed + 1) == (seen, Counter())


def test_a_bit_that_was_flipped_on_the_disk_stays_so_and_one_that_was_not_there_yet_may_go() -> None:
    found = set()
    for seed in SEEDS:
        file = CachedFile("a")
        file.append(b"aaaa")
        file.sync()
        file.append(b"bbbb")
        (held,) = file.content.read(0, 8)
        file.flip_bit(1, 1)
        file.flip_bit(5, 0)
        assert content(file) == b"acaabcbb"
        assert bytes(held) == b"aaaabbbb"
        found.add(after_power_loss(file, seed)[0])
    assert all(seen.startswith(b"acaa") for seen in found)
    assert b"acaa" in found


# Names


def paths(names: CachedNames) -> list[str]:
    return sorted(file.path for file in names.files())


def made(*created: str) -> CachedNames:
    names = CachedNames()
    for path in created:
        names.change(CachedFile(path), None, path)
    return names


def test_of_the_changes_in_a_directory_the_first_ones_have_happened() -> None:
    found: Counter[tuple[str, ...]] = Counter()
    for seed in SEEDS:
        names = made("a/1", "a/2", "b/1")
        names.lose_power(Random(seed), Counter())
        found[tuple(paths(names))] += 1
    assert set(found) == {
        (),
        ("a/1",),
        ("a/1", "a/2"),
        ("b/1",),
        ("a/1", "b/1"),
        ("a/1", "a/2", "b/1"),
    }


def test_the_names_of_a_directory_that_was_synced_stay_and_those_of_others_may_not() -> None:
    found = set()
    for seed in SEEDS:
        names = made("a/1", "b/1")
        names.sync("a")
        first = names.find("a/1")
        assert first is not None
        names.change(first, "a/1", None)
        names.lose_power(Random(seed), Counter())
        found.add(tuple(paths(names)))
    assert found == {("a/1",), (), ("a/1", "b/1"), ("b/1",)}


def test_a_renaming_happens_as_a_whole_or_not_at_all() -> None:
    found = set()
    for seed in SEEDS:
        names = made("a/new", "a/old")
        names.sync("a")
        new = names.find("a/new")
        assert new is not None
        names.change(new, "a/new", "a/old")
        names.lose_power(Random(seed), Counter())
        old = names.find("a/old")
        found.add((tuple(names.current["a"]), old is new))
    assert found == {(("new", "old"), False), (("old",), True)}


def test_a_file_that_was_moved_is_in_one_directory_and_synced_with_either() -> None:
    for synced in ("", "a", "b"):
        found = set()
        for seed in SEEDS:
            names = made("a/1")
            names.sync("a")
            names.change(CachedFile("b/2"), None, "b/2")
            moved = names.find("a/1")
            assert moved is not None
            names.change(moved, "a/1", "b/1")
            moved.path = "b/1"
            if synced:
                names.sync(synced)
            names.lose_power(Random(seed), Counter())
            found.add(tuple(paths(names)))
        # The creation in b came before the move, so it has happened wherever that has.
        expected = {("a/1",), ("a/1", "b/2"), ("b/1", "b/2")}
        assert found == ({("b/1", "b/2")} if synced else expected)
