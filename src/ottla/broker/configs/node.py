"""The configs of one node: its own, static and dynamic, those of its loggers, and what applies to each topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ottla.broker.configs.broker import BrokerConfigs
from ottla.broker.configs.loggers import BrokerLoggers
from ottla.broker.configs.topic import TopicConfigs
from ottla.wire.resources import ConfigResourceType

if TYPE_CHECKING:
    from ottla.broker.metadata.image import Delta, MetadataImage


class NodeConfigs:
    """What is set where is in the metadata image; here is what it comes to."""

    def __init__(self, static: Mapping[str, object], node_id: int, image: MetadataImage) -> None:
        self.broker = BrokerConfigs(dict(static), node_id=node_id)
        self.loggers = BrokerLoggers()
        self._image = image
        # Those of topics that were needed; a change of the image takes them away.
        self._topics: dict[str, TopicConfigs] = {}

    def value(self, name: str) -> Any:
        """A broker config, typed."""
        return self.broker.value(name)

    def topic(self, name: str) -> TopicConfigs:
        """What applies to a topic, wherever it was set."""
        configs = self._topics.get(name)
        if configs is None:
            overrides = self._image.config_overrides(ConfigResourceType.TOPIC, name)
            configs = self._topics[name] = TopicConfigs(overrides, self.broker)
        return configs

    def apply(self, delta: Delta) -> list[str]:
        """The image has changed; the topics, of those that were needed, to which something else applies now."""
        changed = {name: None for kind, name in delta.configs if kind == ConfigResourceType.TOPIC}
        if any(kind == ConfigResourceType.BROKER for kind, _ in delta.configs):
            self.broker.set_dynamic(
                self._image.config_overrides(ConfigResourceType.BROKER, str(self.broker.node_id)),
                self._image.config_overrides(ConfigResourceType.BROKER, ""),
            )
            changed = dict.fromkeys(self._topics)
        return [name for name in changed if self._topics.pop(name, None) is not None]
