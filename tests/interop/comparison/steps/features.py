"""UpdateFeatures: what can be finalized, and in which words the rest is refused."""

from __future__ import annotations

from ottla.wire.messages import UpdateFeaturesRequest
from tests.interop.comparison.requests import just
from tests.interop.comparison.script import Build, Step, ask, section

UPGRADE, SAFE, UNSAFE = 1, 2, 3
METADATA = "metadata.version"
LATEST = 30

Update = tuple[str, int, int]


def update(*updates: Update, validate_only: bool = True, timeout_ms: int = 5_000) -> Build:
    """As from version 1."""
    return just(
        UpdateFeaturesRequest(
            timeout_ms=timeout_ms,
            feature_updates=[
                UpdateFeaturesRequest.FeatureUpdateKey(
                    feature=name, max_version_level=level, upgrade_type=how
                )
                for name, level, how in updates
            ],
            validate_only=validate_only,
        )
    )


def update_old(name: str, level: int, downgrade: bool) -> Build:
    key = UpdateFeaturesRequest.FeatureUpdateKey(
        feature=name, max_version_level=level, allow_downgrade=downgrade
    )
    return just(UpdateFeaturesRequest(timeout_ms=5_000, feature_updates=[key]))


def _levels() -> list[Step]:
    steps = []
    for level in (LATEST, LATEST + 1, 99, 0, -1, 1, 6, 7, 29):
        for how in (0, UPGRADE, SAFE, UNSAFE, 4, -1):
            steps += ask(f"{level} by {how}", update((METADATA, level, how)), 1, 2)
    return steps


SECTION = section(
    "update features",
    _levels(),
    ask("nothing", update(), 1, 2),
    ask("nothing, an old client", just(UpdateFeaturesRequest(timeout_ms=5_000)), 0),
    ask("the same level, an old client", update_old(METADATA, LATEST, False), 0),
    ask("too high a level, an old client", update_old(METADATA, 99, False), 0),
    ask("a lower level, an old client", update_old(METADATA, 29, False), 0),
    ask("no level, an old client", update_old(METADATA, 0, True), 0),
    ask("an unknown feature, an old client", update_old("no.such.feature", 1, False), 0),
    ask("one without a name", update(("", 1, UPGRADE)), 1, 2),
    *(
        ask(f"an unknown one to {level} by {how}", update(("no.such.feature", level, how)), 1, 2)
        for level in (0, 1, -1)
        for how in (UPGRADE, SAFE, UNSAFE, 0)
    ),
    ask("one twice", update((METADATA, LATEST, UPGRADE), (METADATA, LATEST, UPGRADE)), 1, 2),
    ask("one twice, otherwise", update((METADATA, LATEST, UPGRADE), (METADATA, 99, UPGRADE)), 2),
    ask("a good and a bad one", update((METADATA, LATEST, UPGRADE), ("no.such.feature", 1, UPGRADE)), 1, 2),
    ask("a bad and a good one", update(("no.such.feature", 1, UPGRADE), (METADATA, LATEST, UPGRADE)), 1, 2),
    ask("two bad ones", update(("no.such.feature", 1, UPGRADE), ("no.such.other", 1, UPGRADE)), 2),
    ask(
        "two bad ones, the other way",
        update(("no.such.other", 1, UPGRADE), ("no.such.feature", 1, UPGRADE)),
        2,
    ),
    ask("for good", update((METADATA, LATEST, UPGRADE), validate_only=False), 1, 2),
    ask("without time", update((METADATA, LATEST, UPGRADE), timeout_ms=0), 1, 2),
    ask("nothing, without time", update(timeout_ms=0), 1, 2),
)
