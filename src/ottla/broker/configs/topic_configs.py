"""From the configs of a topic to what its logs honour of them."""

from __future__ import annotations

from ottla.broker.configs import TopicConfigs, log_settings
from ottla.broker.log.config import LogConfig


def log_config(topic: TopicConfigs) -> LogConfig:
    """The settings of the logs of one topic, as its broker sees them."""
    settings = log_settings(topic)
    policies = settings["cleanup.policy"]
    same_name = {
        name: settings[name.replace("_", ".")]
        for name in LogConfig.__dataclass_fields__
        if name not in ("compact", "delete")
    }
    return LogConfig(compact="compact" in policies, delete="delete" in policies, **same_name)
