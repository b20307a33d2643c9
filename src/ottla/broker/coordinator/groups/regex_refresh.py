"""When the regular expressions of a group are resolved, and what comes of it (KIP-848).

Not with the heartbeat that brings one: matching all topics takes its time, and the response does not wait for it.
Soon after, all expressions of the group are resolved at once, though not again within ten seconds; until then a new
one matches nothing. They are resolved anew when there are new topics, and from time to time.
"""

from __future__ import annotations

from typing import Any, Final

from ottla.broker.coordinator.groups.advance import Change, next_epoch
from ottla.broker.coordinator.groups.consumer_group import ConsumerGroup
from ottla.broker.coordinator.groups.consumer_groups import ConsumerGroups
from ottla.broker.coordinator.groups.consumer_member import ResolvedRegex
from ottla.broker.coordinator.groups.consumer_records import regex_record
from ottla.broker.coordinator.groups.regex import matching
from ottla.broker.coordinator.shard import CoordinatorRecord, Result

_SHORTEST_INTERVAL_MS: Final = 10_000


def refresh_regexes(groups: ConsumerGroups, group: ConsumerGroup, change: Change) -> None:
    """Has the expressions of a group resolved soon, if it is time; `change` is still to be written."""
    wanted = group.subscribed_regexes | ({change.new.regex} if change.new.regex else set())
    resolved = group.regexes
    if not wanted or group.group_id in groups.resolving:
        return
    now_ms = groups.context.now_ms()
    last = next(iter(resolved.values()), None)
    if last is not None and now_ms <= last.timestamp_ms + _SHORTEST_INTERVAL_MS:
        return
    if (
        last is None
        or wanted != resolved.keys()
        or last.version < groups.topics_version
        or now_ms > last.timestamp_ms + groups.configs.regex_refresh_interval_ms
    ):
        groups.resolving.add(group.group_id)
        groups.context.submit(lambda _: _resolve(groups, group.group_id))


def _resolve(groups: ConsumerGroups, group_id: str) -> Result[Any]:
    groups.resolving.discard(group_id)
    group = groups.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        return Result([], None)
    records: list[CoordinatorRecord] = []
    found = {
        regex: ResolvedRegex(
            matching(regex, groups.image.topics), groups.image.offset, groups.context.now_ms()
        )
        for regex in sorted(group.subscribed_regexes)
    }
    changed = False
    for regex, resolved in found.items():
        before = group.regexes.get(regex)
        changed |= (before.topics if before is not None else frozenset()) != resolved.topics
        records.append(regex_record(group_id, regex, resolved))
    next_epoch(group, group.members.values(), changed, groups.image, records, resolved=found)
    return Result(records, None)
