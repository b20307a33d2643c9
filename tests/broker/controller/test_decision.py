"""What a decision may read: whose epoch is the latest, and what applies to a topic."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from ottla.broker.controller.brokers import BrokerSessions
from ottla.broker.controller.decision import Context, check_time
from ottla.broker.metadata.image import MetadataImage
from ottla.broker.metadata.records import ConfigRecord, RegisterBrokerRecord
from ottla.errors import RequestTimedOutError, StaleBrokerEpochError
from ottla.wire import Uuid
from ottla.wire.resources import ConfigResourceType
from tests.broker.controller.support import Configs


class LayeredConfigs(Configs):
    """Says where the value of a topic's config comes from."""

    def topic_value(self, name: str, overrides: Mapping[str, str], defaults: Mapping[str, str]) -> Any:
        for layer, values in (("topic", overrides), ("cluster", defaults)):
            if name in values:
                return layer, values[name]
        return "default", ""


def context(*records: ConfigRecord | RegisterBrokerRecord) -> Context:
    image = MetadataImage()
    image.apply_all(records)
    return Context(image, BrokerSessions(9.0), LayeredConfigs({}), random.Random(0))


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_a_request_without_time_is_given_up_before_it_is_looked_at(timeout_ms: int) -> None:
    with pytest.raises(RequestTimedOutError):
        check_time(timeout_ms)
    check_time(1)


def test_a_broker_speaks_for_its_latest_incarnation_only() -> None:
    registered = RegisterBrokerRecord(
        broker_id=1, broker_epoch=7, incarnation_id=Uuid(bytes(16)), listeners=(), rack=None, fenced=True
    )
    decided = context(registered)
    decided.check_broker_epoch(1, 7)
    for epoch in (6, 8):
        with pytest.raises(
            StaleBrokerEpochError, match=f"Expected broker epoch 7, but got broker epoch {epoch}"
        ):
            decided.check_broker_epoch(1, epoch)
    with pytest.raises(StaleBrokerEpochError, match="No broker registration found for broker id 2"):
        decided.check_broker_epoch(2, 7)


def test_a_topic_has_its_own_config_before_the_defaults_of_the_cluster() -> None:
    decided = context(
        ConfigRecord(ConfigResourceType.TOPIC, "orders", "retention.ms", "1"),
        ConfigRecord(ConfigResourceType.BROKER, "", "retention.ms", "2"),
        ConfigRecord(ConfigResourceType.BROKER, "1", "segment.ms", "3"),
    )
    assert decided.config_defaults == {"retention.ms": "2"}
    assert decided.topic_config("orders", "retention.ms") == ("topic", "1")
    assert decided.topic_config("payments", "retention.ms") == ("cluster", "2")
    assert decided.topic_config("orders", "segment.ms") == ("default", ""), (
        "one broker's own is not the cluster's"
    )
