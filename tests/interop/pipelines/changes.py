"""examples/changes: a log in which changes are repeated and sent again, and the changes that are in it.

Values are Avro, written here byte by byte.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final, NamedTuple

from tests.interop.pipelines.example import Example, Feed, Row, interleaved

_ACCOUNTS: Final = 12
_START_MS: Final = 1_777_636_800_000
_CHANGES: Final = (20, 10, 10, 10)
"""Of each account, in each portion."""


class Change(NamedTuple):
    account: str
    version: int
    owner: str | None
    cents: int
    at: int

    @property
    def row(self) -> Row:
        owner = _long(0) if self.owner is None else _long(1) + _string(self.owner)
        value = _string(self.account) + _long(self.version) + owner + _long(self.cents) + _long(self.at)
        return Row(self.account.encode(), value)


def _long(number: int) -> bytes:
    """Zigzag, seven bits a byte."""
    left = number << 1 if number >= 0 else ~(number << 1)
    written = bytearray()
    while left > 0x7F:
        written.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*written, left])


def _string(text: str) -> bytes:
    content = text.encode()
    return _long(len(content)) + content


def example() -> Example:
    chance = random.Random(20260502)
    new = [_portion(chance, number) for number in range(len(_CHANGES))]
    sent = [repeated(chance, changes) for changes in new]
    # A sender that was killed sends again from where it last knew to be: all of the portion before.
    sent[1] = [*sent[0], *sent[1]]
    sent[2] = [*sent[1], *sent[2]]
    sent[3] = [*sent[3], *sent[0]]
    return Example(
        name="changes",
        topics={"changes": 3, "changes-once": 2},
        portions=tuple(([Feed("changes", change.row) for change in portion],) for portion in sent),
        expected={"changes-once": first_of_each([change for portion in sent for change in portion])},
        in_order=True,
    )


def _portion(chance: random.Random, portion: int) -> list[Change]:
    """New versions of every account; those of one in their order."""
    before = sum(_CHANGES[:portion])
    logs = [
        [_change(chance, f"účet-{number}", before + each + 1) for each in range(_CHANGES[portion])]
        for number in range(_ACCOUNTS)
    ]
    return list(interleaved(chance, *logs))


def _change(chance: random.Random, account: str, version: int) -> Change:
    owner = chance.choice((None, "", "Ada", "Božena"))
    return Change(account, version, owner, chance.randrange(-(10**12), 10**12), _START_MS + version * 1_001)


def repeated(chance: random.Random, changes: Sequence[Change]) -> list[Change]:
    """Some changes twice in a row, and now and then the last twenty once more."""
    sent: list[Change] = []
    for change in changes:
        sent += [change] * chance.choice((1, 1, 1, 2))
        if chance.random() < 0.03:
            sent += sent[-20:]
    return sent


def first_of_each(changes: Sequence[Change]) -> list[Row]:
    seen: dict[tuple[str, int], Change] = {}
    for change in changes:
        seen.setdefault((change.account, change.version), change)
    return [change.row for change in seen.values()]
