"""Which kind a file is, by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.dump.files import LogName, log_name, suffix_of

BASE = "00000000000000000042"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (f"{BASE}.log", ".log"),
        (f"{BASE}.log.deleted", ".log"),
        (f"{BASE}.index.cleaned", ".index"),
        (f"{BASE}.timeindex.swap", ".timeindex"),
        (f"{BASE}.txnindex", ".txnindex"),
        (f"{BASE}.snapshot", ".snapshot"),
        (f"{BASE}-0000000003.checkpoint", ".checkpoint"),
        ("bootstrap.checkpoint", ".checkpoint"),
        ("meta.properties", "meta.properties"),
        ("leader-epoch-checkpoint", "leader-epoch-checkpoint"),
        (".lock", None),
        ("42.log", None),
        (f"{BASE}.log.gz", None),
        (f"{BASE}.txt", None),
        ("leader-epoch-checkpoint.tmp", None),
    ],
)
def test_the_kind_of_a_file_is_known_by_its_name(name: str, kind: str | None) -> None:
    assert suffix_of(name) == kind


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders-0", LogName("orders", 0, "")),
        ("or-ders-12", LogName("or-ders", 12, "")),
        ("orders-0." + "a" * 32 + "-delete", LogName("orders", 0, "delete")),
        ("orders-0." + "a" * 32 + "-future", LogName("orders", 0, "future")),
        ("orders-0." + "a" * 32 + "-stray", LogName("orders", 0, "stray")),
        ("orders", None),
        ("-0", None),
        ("orders-x", None),
    ],
)
def test_the_topic_of_a_log_is_known_by_its_directory(name: str, expected: LogName | None) -> None:
    assert log_name(Path("/var") / name) == expected
