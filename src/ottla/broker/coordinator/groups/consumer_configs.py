"""What the configs say about KIP-848 groups: the node's, and those of single groups that override them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ottla.broker.configs.group import GroupConfigs
from ottla.wire.resources import ConfigResourceType

if TYPE_CHECKING:
    from ottla.broker.configs.node import NodeConfigs
    from ottla.broker.metadata.image import MetadataImage


class ConsumerGroupConfigs:
    """Read at each use, since all of them but the assignors may change while the node runs."""

    def __init__(self, node: NodeConfigs, image: MetadataImage) -> None:
        self._node = node
        self._image = image

    def session_timeout_ms(self, group_id: str) -> int:
        return int(self._of_group(group_id, "consumer.session.timeout.ms"))

    def heartbeat_interval_ms(self, group_id: str) -> int:
        return int(self._of_group(group_id, "consumer.heartbeat.interval.ms"))

    def assignment_interval_ms(self, group_id: str) -> int:
        return int(self._of_group(group_id, "consumer.assignment.interval.ms"))

    @property
    def max_size(self) -> int:
        return int(self._node.value("group.consumer.max.size"))

    @property
    def classic_max_size(self) -> int:
        return int(self._node.value("group.max.size"))

    @property
    def assignors(self) -> Sequence[str]:
        """The names that members may ask for."""
        names: Sequence[str] = self._node.value("group.consumer.assignors")
        return names

    @property
    def default_assignor(self) -> str:
        return self.assignors[0]

    @property
    def regex_refresh_interval_ms(self) -> int:
        return int(self._node.value("group.consumer.regex.refresh.interval.ms"))

    @property
    def allows_upgrade(self) -> bool:
        """Whether a classic group in use may become one of this protocol."""
        return self._migration_policy in ("upgrade", "bidirectional")

    @property
    def allows_downgrade(self) -> bool:
        """Whether a group in use may become a classic one when its last member of this protocol is gone."""
        return self._migration_policy in ("downgrade", "bidirectional")

    @property
    def allows_classic_members(self) -> bool:
        """Whether members of the classic protocol may join a group in use."""
        return self._migration_policy != "disabled"

    @property
    def _migration_policy(self) -> str:
        return str(self._node.value("group.consumer.migration.policy")).lower()

    def _of_group(self, group_id: str, name: str) -> Any:
        overrides = self._image.config_overrides(ConfigResourceType.GROUP, group_id)
        return GroupConfigs(overrides, self._node.broker).value(name)
