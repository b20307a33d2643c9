"""Codes and sentences are those that Apache Kafka 4.3.1 answers."""

from collections.abc import Mapping

import pytest

from ottla.broker.controller.decision import MIN_ISR
from ottla.broker.metadata.records import ClearElrRecord, ConfigRecord, MetadataRecord
from ottla.errors import UnknownServerError
from ottla.wire.messages import AlterConfigsRequest, IncrementalAlterConfigsRequest
from tests.broker.controller.support import Controller

UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_CONFIG = 40
INVALID_REQUEST = 42
BROKER_ID_NOT_REGISTERED = 102

TOPIC, BROKER, METRICS, GROUP = 2, 4, 16, 32
RESOURCES = [(TOPIC, "t"), (BROKER, "1"), (BROKER, ""), (METRICS, "m"), (GROUP, "g")]


@pytest.fixture
def controller() -> Controller:
    controller = Controller([1])
    controller.create("t", configs={"a": "1", "b": "2"})
    return controller


def alter(
    controller: Controller, *keys: tuple[int, str], configs: Mapping[str, str], validate_only: bool = False
) -> list[tuple[int, str | None]]:
    resources = [
        AlterConfigsRequest.AlterConfigsResource(
            resource_type=type_,
            resource_name=name,
            configs=[
                AlterConfigsRequest.AlterableConfig(name=key, value=value) for key, value in configs.items()
            ],
        )
        for type_, name in keys
    ]
    request = AlterConfigsRequest(resources=resources, validate_only=validate_only)
    response = controller.carry_out(controller.state.alter_configs(request))
    assert [(result.resource_type, result.resource_name) for result in response.responses] == list(keys)
    return [(result.error_code, result.error_message) for result in response.responses]


def increment(
    controller: Controller,
    *keys: tuple[int, str],
    configs: Mapping[str, str | None],
    validate_only: bool = False,
) -> list[tuple[int, str | None]]:
    resources = [
        IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=type_,
            resource_name=name,
            configs=[
                IncrementalAlterConfigsRequest.AlterableConfig(name=key, value=value)
                for key, value in configs.items()
            ],
        )
        for type_, name in keys
    ]
    request = IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)
    response = controller.carry_out(controller.state.incremental_alter_configs(request))
    assert [(result.resource_type, result.resource_name) for result in response.responses] == list(keys)
    return [(result.error_code, result.error_message) for result in response.responses]


def test_altering_replaces_everything_and_writes_the_differences(controller: Controller) -> None:
    before = len(controller.log)
    assert alter(controller, (TOPIC, "t"), configs={"b": "2", "c": "3"}) == [(0, None)]
    assert controller.state.image.config_overrides(TOPIC, "t") == {"b": "2", "c": "3"}
    assert controller.log[before:] == [
        ConfigRecord(TOPIC, "t", "a", None),
        ConfigRecord(TOPIC, "t", "c", "3"),
    ]


def test_altering_incrementally_leaves_the_rest(controller: Controller) -> None:
    assert increment(controller, (TOPIC, "t"), configs={"a": None, "c": "3"}) == [(0, None)]
    assert controller.state.image.config_overrides(TOPIC, "t") == {"b": "2", "c": "3"}


@pytest.mark.parametrize("key", RESOURCES)
def test_each_kind_of_resource_has_overrides_of_its_own(controller: Controller, key: tuple[int, str]) -> None:
    assert increment(controller, key, configs={"x": "9"}) == [(0, None)]
    assert controller.state.image.config_overrides(*key)["x"] == "9"
    others = [other for other in RESOURCES if other != key]
    assert not any("x" in controller.state.image.config_overrides(*other) for other in others)


def test_validate_only_changes_nothing(controller: Controller) -> None:
    before = len(controller.log)
    assert alter(controller, (TOPIC, "t"), configs={}, validate_only=True) == [(0, None)]
    assert increment(controller, (TOPIC, "t"), configs={"x": "1"}, validate_only=True) == [(0, None)]
    assert len(controller.log) == before


@pytest.mark.parametrize("change", [alter, increment])
@pytest.mark.parametrize(
    ("key", "code", "sentence"),
    [
        ((TOPIC, "nope"), UNKNOWN_TOPIC_OR_PARTITION, "The topic 'nope' does not exist."),
        ((BROKER, "99"), BROKER_ID_NOT_REGISTERED, "No node with id 99 found."),
    ],
)
def test_what_is_not_there_is_not_configured(
    controller: Controller, change: object, key: tuple[int, str], code: int, sentence: str
) -> None:
    assert callable(change)
    before = len(controller.log)
    assert change(controller, key, configs={"x": "1"}) == [(code, sentence)]
    assert len(controller.log) == before


def test_one_bad_resource_does_not_spoil_the_others(controller: Controller) -> None:
    assert increment(controller, (TOPIC, "nope"), (BROKER, ""), configs={"x": "1"}) == [
        (UNKNOWN_TOPIC_OR_PARTITION, "The topic 'nope' does not exist."),
        (0, None),
    ]
    assert controller.state.image.config_overrides(BROKER, "") == {"x": "1"}


def test_a_resource_that_is_named_twice_is_not_changed(controller: Controller) -> None:
    twice = (INVALID_REQUEST, "Each resource must appear at most once.")
    answers = increment(controller, (TOPIC, "t"), (BROKER, ""), (TOPIC, "t"), configs={"x": "1"})
    assert answers == [twice, (0, None), twice]


def test_what_the_rules_refuse_is_answered(controller: Controller) -> None:
    refused = [(INVALID_CONFIG, "Unknown topic config name: nope")]
    assert alter(controller, (TOPIC, "t"), configs={"nope": "1"}) == refused
    assert increment(controller, (TOPIC, "t"), configs={"nope": "1"}) == refused


@pytest.mark.parametrize("change", [alter, increment])
def test_a_mistake_is_told_before_the_topic_is_looked_for(controller: Controller, change: object) -> None:
    assert callable(change)
    refused = [(INVALID_CONFIG, "Unknown topic config name: nope")]
    assert change(controller, (TOPIC, "not-there"), configs={"nope": "1"}) == refused


def test_an_operation_that_does_not_exist_fails_the_whole_request(controller: Controller) -> None:
    resources = [
        IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[IncrementalAlterConfigsRequest.AlterableConfig(name="x", config_operation=operation)],
        )
        for kind, name, operation in ((BROKER, "", 0), (TOPIC, "t", 9), (TOPIC, "nope", 0))
    ]
    with pytest.raises(UnknownServerError):
        controller.state.incremental_alter_configs(IncrementalAlterConfigsRequest(resources=resources))


@pytest.mark.parametrize("change", [alter, increment])
@pytest.mark.parametrize(
    ("key", "configs", "elr", "forgotten"),
    [
        ((TOPIC, "t"), {MIN_ISR: "3"}, True, [ClearElrRecord("t")]),
        ((BROKER, ""), {MIN_ISR: "3"}, True, [ClearElrRecord("")]),
        ((TOPIC, "t"), {"c": "3"}, True, []),
        ((TOPIC, "t"), {MIN_ISR: "3"}, False, []),
    ],
)
def test_who_is_eligible_is_forgotten_with_the_size_of_the_isr_that_they_were_counted_against(
    change: object,
    key: tuple[int, str],
    configs: dict[str, str],
    elr: bool,
    forgotten: list[MetadataRecord],
) -> None:
    assert callable(change)
    controller = Controller([1], elr=elr)
    controller.create("t")
    before = len(controller.log)
    assert change(controller, key, configs=configs) == [(0, None)]
    ((name, value),) = configs.items()
    assert controller.log[before:] == [ConfigRecord(*key, name, value), *forgotten]
    before = len(controller.log)
    assert change(controller, key, configs=configs) == [(0, None)]
    assert controller.log[before:] == []
