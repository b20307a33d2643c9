"""What a user says of a cluster: its topics, racks and ports, checked where they are given.

Inside the cluster a mistake would show as something else; here it is named, with what is meant instead.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ottla.broker.configs.broker import to_static_text
from ottla.wire.messages import CreateTopicsRequest
from ottla.wire.resources import ConfigResourceType

if TYPE_CHECKING:
    from ottla.broker.metadata.image import MetadataImage, TopicImage

_log = logging.getLogger("ottla.broker.cluster.options")

_HIGHEST_PORT: Final = 65535
_MOST_BROKERS: Final = 1000


@dataclass(frozen=True)
class TopicSpec:
    """A topic to be created: `topics={"orders": TopicSpec(6, config={"cleanup.policy": "compact"})}`."""

    partitions: int = 1
    replicas: int = -1
    config: Mapping[str, object] = field(default_factory=dict)


def topic_specs(topics: Mapping[str, int | TopicSpec] | Sequence[str]) -> dict[str, TopicSpec]:
    if isinstance(topics, str):
        raise TypeError(f'topics={topics!r}: a list or a dict of topics is meant, as in {{"{topics}": 1}}')
    check("topics", topics, Iterable, "a list or a dict of topics")
    for name in topics:
        check("topic", name, str, "a name")
    if not isinstance(topics, Mapping):
        return {name: TopicSpec() for name in topics}
    return {name: _spec(name, spec) for name, spec in topics.items()}


def _spec(name: str, given: int | TopicSpec) -> TopicSpec:
    spec = given if isinstance(given, TopicSpec) else TopicSpec(partitions=given)
    check(f"partitions of {name!r}", spec.partitions, int, "a number, or a TopicSpec,")
    check(f"replicas of {name!r}", spec.replicas, int, "a number")
    check(f"config of {name!r}", spec.config, Mapping, "a dict of Kafka's names and their values")
    return spec


def creatable(topics: Mapping[str, TopicSpec]) -> list[CreateTopicsRequest.CreatableTopic]:
    """What a request to create them says."""
    return [
        CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=spec.partitions,
            replication_factor=spec.replicas,
            configs=[
                CreateTopicsRequest.CreatableTopicConfig(name=key, value=to_static_text(value))
                for key, value in spec.config.items()
            ],
        )
        for name, spec in topics.items()
    ]


def missing_topics(topics: Mapping[str, TopicSpec], image: MetadataImage) -> dict[str, TopicSpec]:
    """Those that are not there from an earlier life of the cluster; one that is, but differs, is a ValueError."""
    for name, spec in topics.items():
        if name in image.topics:
            overrides = image.config_overrides(ConfigResourceType.TOPIC, name)
            _check_as_wanted(name, spec, image.topics[name], overrides)
    return {name: spec for name, spec in topics.items() if name not in image.topics}


def _check_as_wanted(name: str, spec: TopicSpec, known: TopicImage, overrides: Mapping[str, str]) -> None:
    replicas = len(known.partitions[0].replicas)
    found = {"partitions": len(known.partitions), "replicas": replicas, **overrides}
    wanted: dict[str, object] = {"partitions": spec.partitions, "replicas": spec.replicas}
    wanted |= {key: to_static_text(value) for key, value in spec.config.items()}
    if spec.replicas == -1:
        del wanted["replicas"]
    for what, value in wanted.items():
        if found.get(what) != value:
            raise ValueError(
                f"topic {name!r} exists with {what} {found.get(what, 'not set')}, not {value}: leave it out of "
                "topics, or alter it with an admin client"
            )


def warn_of_absent_nodes(brokers: int, image: MetadataImage) -> None:
    """A data directory may have been that of more nodes; that some of them are missing shows nowhere else."""
    absent = sorted(node for node in image.brokers if node > brokers)
    if absent:
        _log.warning(
            "nodes %s of this data directory are not started, and what only they have is offline; brokers=%s "
            "starts all",
            ", ".join(map(str, absent)),
            absent[-1],
        )


def _default_config(brokers: int) -> dict[str, object]:
    """Where the defaults of Kafka need three brokers, or patience."""
    replicas = min(3, brokers)
    return {
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": min(2, replicas),
        "group.initial.rebalance.delay.ms": 0,  # every test of a group would take three seconds longer
    }


def check_cluster(
    brokers: int,
    racks: Sequence[str | None],
    ports: Sequence[int],
    host: str,
    config: Mapping[str, object] | None,
) -> dict[str, object]:
    """The broker configs, with what a cluster of this size has instead of Kafka's defaults."""
    check("brokers", brokers, int, "a number")
    if brokers < 1:
        raise ValueError(f"brokers={brokers}: a cluster has at least one")
    if brokers > _MOST_BROKERS:
        raise ValueError(f"brokers={brokers}: a process has room, and ports, for at most {_MOST_BROKERS}")
    for name, given in (("racks", racks), ("ports", ports)):
        check(name, given, (list, tuple, range), "a list with one entry for each broker")
        if given and len(given) != brokers:
            raise ValueError(f"{name} has {len(given)} entries for {brokers} brokers")
    for rack in racks:
        check_rack(rack)
    for port in ports:
        check_port(port)
    check("host", host or None, str, "an address or a name")
    check("config", config or {}, Mapping, "a dict of Kafka's names and their values")
    return {**_default_config(brokers), **(config or {})}


def check_rack(rack: str | None) -> None:
    check("rack", "" if rack is None else rack, str, "a name or None")


def check_port(port: int) -> None:
    check("port", port, int, "a number")
    if not 0 <= port <= _HIGHEST_PORT:
        raise ValueError(f"port={port}: ports end at {_HIGHEST_PORT}, and 0 stands for a free one")


def check(name: str, value: object, kind: type | tuple[type, ...], meant: str) -> None:
    """A TypeError where the value is not of that kind; `meant` says in words what is."""
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{name}={value!r}: {meant} is meant")
