"""What a client is given to be made of: options, a partitioner, hooks and interceptors, checked before it starts.

Each mistake is a ConfigurationError that says what to write instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from ottla.client.partitioners import DefaultPartitioner, Partitioner, as_partitioner
from ottla.client.partitioners.function import PartitionFunction
from ottla.config import ClientConfig, ClientOptions
from ottla.errors import ConfigurationError
from ottla.hooks import ConsumerInterceptor, Hook, ProducerInterceptor

_T = TypeVar("_T")


def config_of(
    servers: str | Sequence[str] | None, config: ClientConfig | None, options: ClientOptions
) -> ClientConfig:
    """The config of a client, out of the arguments that it can come from."""
    for given in (servers, config, options):
        if isinstance(given, Mapping):
            _check_handed_over(given, as_keywords=given is options)
    if config is not None and not isinstance(config, ClientConfig):
        raise ConfigurationError(
            f"config is a ClientConfig, not {type(config).__name__}: make one with ClientConfig(...), "
            "ClientConfig.from_properties(...) or ClientConfig.from_file(...)",
            option="config",
            value=config,
        )
    if config is not None:
        changes: dict[str, Any] = dict(options)
        if servers is not None:
            changes["bootstrap_servers"] = servers
        return config.replace(**changes) if changes else config
    if servers is None:
        raise ConfigurationError(
            'no brokers: name one, as in Client("localhost:9092"), or pass config=',
            option="bootstrap_servers",
        )
    return ClientConfig(bootstrap_servers=servers, **options)


def _check_handed_over(given: Mapping[Any, object], *, as_keywords: bool) -> None:
    """A ConfigurationError for settings that came as other clients take them, with how to hand them over here."""
    dotted = next((name for name in given if isinstance(name, str) and "." in name), None)
    if dotted is not None:
        raise ConfigurationError(
            f"{dotted} is a name of Kafka's, and a client takes keywords such as {dotted.replace('.', '_')}=...: "
            "hand a dict of Kafka's names over with Client(config=ottla.ClientConfig.from_properties({...}))",
            option=dotted,
        )
    if not as_keywords:
        raise ConfigurationError(
            "a client takes its options as keywords: write Client(**options), with the brokers in bootstrap_servers",
            option="bootstrap_servers",
        )


def partitioner_of(given: str | Partitioner | PartitionFunction, config: ClientConfig) -> Partitioner:
    """By name, as an object, or as a function."""
    if given == "default":
        return DefaultPartitioner(
            ignore_keys=config.partitioner_ignore_keys,
            adaptive=config.partitioner_adaptive_partitioning_enable,
        )
    return as_partitioner(given)


def listed(option: str, given: Iterable[_T]) -> list[_T]:
    """A list of what was given for an option."""
    if not isinstance(given, Iterable):
        raise ConfigurationError(f"{option} is a list: write {option}=[...] around {given!r}", option=option)
    return list(given)


def check_no_group(**given: object) -> None:
    """For a consumer without a group: what only members have."""
    for name, value in given.items():
        if value is not None:
            raise ConfigurationError(f"{name} is for members of a group: pass group= too", option=name)


def check_interceptors(interceptors: Iterable[object]) -> None:
    """Each is of one of the two kinds, or of both."""
    for each in interceptors:
        if not isinstance(each, ProducerInterceptor | ConsumerInterceptor):
            hint = ": pass it as hooks=[...]" if isinstance(each, Hook) else ""
            raise ConfigurationError(
                f"{each!r} is no ProducerInterceptor and no ConsumerInterceptor{hint}", option="interceptors"
            )
