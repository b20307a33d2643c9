"""A group's configs: its own, else its broker's, within its broker's bounds."""

from __future__ import annotations

import pytest

from ottla.broker.configs import BrokerConfigs
from ottla.broker.configs.group import GroupConfigs, validate_group
from ottla.errors import InvalidConfigError


def test_a_groups_own_config_wins_over_its_brokers() -> None:
    broker = BrokerConfigs({"group.consumer.session.timeout.ms": 46_000}, node_id=1)
    assert GroupConfigs({}, broker).value("consumer.session.timeout.ms") == 46_000
    own = GroupConfigs({"consumer.session.timeout.ms": "47000"}, broker)
    assert own.value("consumer.session.timeout.ms") == 47_000


def test_what_no_broker_has_is_kafkas_default() -> None:
    assert GroupConfigs({}, BrokerConfigs(node_id=1)).value("share.auto.offset.reset") == "latest"


def test_the_bounds_are_the_brokers() -> None:
    broker = BrokerConfigs({"group.consumer.min.session.timeout.ms": 100}, node_id=1)
    validate_group({"consumer.session.timeout.ms": "6000"}, broker)
    with pytest.raises(InvalidConfigError, match=r"must be greater than or equal to group\.consumer\.min"):
        validate_group({"consumer.session.timeout.ms": "99"}, broker)


def test_a_session_outlasts_a_heartbeat() -> None:
    broker = BrokerConfigs({"group.consumer.min.session.timeout.ms": 100}, node_id=1)
    with pytest.raises(InvalidConfigError) as refused:
        validate_group({"consumer.session.timeout.ms": "5000"}, broker)
    assert refused.value.message == (
        "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms"
    )
