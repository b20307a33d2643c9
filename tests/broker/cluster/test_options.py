"""What a cluster is made with: mistakes are named where they are made."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.cluster.options import TopicSpec


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match="at least one"):
        AsyncCluster(0)
    with pytest.raises(ValueError, match="racks has 1 entries for 3 brokers"):
        AsyncCluster(3, racks=["a"])
    with pytest.raises(TypeError, match="a list or a dict"):
        AsyncCluster(topics="orders")
    with pytest.raises(ValueError, match="did you mean"):
        AsyncCluster(config={"message.max.byte": 1})
    with pytest.raises(ValueError, match="releases known here"):
        AsyncCluster(max_versions="0.8")
    with pytest.raises(ValueError, match="port=70000"):
        AsyncCluster(ports=[70000])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"brokers": "3"}, "brokers='3'"),
        ({"topics": None}, "topics=None"),
        ({"topics": [("orders", 6)]}, "topic=('orders', 6)"),
        ({"topics": {"orders": "6"}}, "partitions of 'orders'='6'"),
        ({"topics": {"orders": TopicSpec(config=["a=b"])}}, "config of 'orders'"),  # type: ignore[arg-type]
        ({"config": "num.partitions=2"}, "config='num.partitions=2'"),
        ({"brokers": 3, "racks": "abc"}, "racks='abc'"),
        ({"racks": [1]}, "rack=1"),
        ({"ports": 9092}, "ports=9092"),
        ({"ports": ["9092"]}, "port='9092'"),
        ({"host": None}, "host=None"),
        ({"max_versions": {"Fetch": "11"}}, "max_versions['Fetch']='11'"),
    ],
)
def test_arguments_of_the_wrong_type_are_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError, match=re.escape(said)):
        AsyncCluster(**options)
