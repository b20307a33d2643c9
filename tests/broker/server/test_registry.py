"""The registry: which APIs are served in which versions, and that every handler of a broker is in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker import handlers
from ottla.broker.controller.handlers import CONTROLLER
from ottla.broker.handlers import BROKER_APIS
from ottla.broker.server.registry import Registry
from ottla.errors import NotControllerError, ProtocolError
from ottla.wire import Message
from ottla.wire.messages import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    FetchRequest,
    MetadataRequest,
    MetadataResponse,
)


def served(registry: Registry, **limits: int) -> dict[str, tuple[range, range]]:
    return {
        handler.api.name: (handler.versions, handler.advertised)
        for handler in registry.limited(limits).values()
    }


@pytest.fixture
def registry() -> Registry:
    registry = Registry()

    @registry.handles(MetadataRequest, versions=range(4, 14), advertised=range(14))
    def metadata(node: object, request: Message, call: object) -> MetadataResponse:
        return MetadataResponse()

    @registry.handles(DescribeClusterRequest)
    def describe_cluster(node: object, request: Message, call: object) -> DescribeClusterResponse:
        return DescribeClusterResponse()

    return registry


def test_importing_the_package_of_handlers_loads_every_file_of_it() -> None:
    files = Path(handlers.__file__).parent.glob("*.py")
    loaded = {handler.function.__module__ for handler in BROKER_APIS}
    expected = {f"ottla.broker.handlers.{file.stem}" for file in files} - {
        "ottla.broker.handlers.__init__",
        "ottla.broker.handlers.context",
    }
    assert loaded == expected


def test_the_file_of_a_handler_has_the_number_and_the_name_of_its_api() -> None:
    for handler in BROKER_APIS:
        module = handler.function.__module__.rpartition(".")[2]
        if module.startswith("api_"):
            assert module == f"api_{handler.api.key:02}_{handler.function.__name__}"


def test_what_brokers_forward_the_controller_serves_in_the_same_versions() -> None:
    forwarded = [each for each in BROKER_APIS if each.function.__module__.endswith("forwarded")]
    assert forwarded
    controller = CONTROLLER.limited({})
    assert all(controller[each.api.key].versions == each.versions for each in forwarded)


def test_without_a_range_every_stable_version_is_served(registry: Registry) -> None:
    assert served(registry) == {
        "Metadata": (range(4, 14), range(14)),
        "DescribeCluster": (range(3), range(3)),
    }
    assert [handler.api.name for handler in registry] == ["Metadata", "DescribeCluster"], "by key"


def test_an_api_has_one_handler(registry: Registry) -> None:
    with pytest.raises(ValueError, match="Metadata already has a handler"):
        registry.handles(MetadataRequest)(lambda node, request, call: None)
    registry.handles(FetchRequest)(lambda node, request, call: None)


def test_versions_are_cut_to_play_an_older_kafka(registry: Registry) -> None:
    assert served(registry, Metadata=9)["Metadata"] == (range(4, 10), range(10))
    assert served(registry, Metadata=2)["Metadata"] == (range(4, 3), range(3))
    assert "DescribeCluster" not in served(registry, DescribeCluster=-1)
    with pytest.raises(ProtocolError, match="Metadatas"):
        registry.limited({"Metadatas": 1})


def test_a_refusal_is_the_error_code_at_the_top_with_its_message(registry: Registry) -> None:
    handler = registry.limited({})[DescribeClusterRequest.API_KEY]
    refused = handler.refuse(DescribeClusterRequest(), NotControllerError("not here"))
    assert refused == DescribeClusterResponse(error_code=NotControllerError.code, error_message="not here")
