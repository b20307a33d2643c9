"""Codes and sentences are those that Apache Kafka 4.3.1 answers, but for the controller's number."""

import pytest

from ottla.broker.controller.decision import MIN_ISR
from ottla.broker.metadata.records import ConfigRecord, FeatureLevelRecord
from ottla.wire.messages import BrokerRegistrationRequest, UpdateFeaturesRequest, UpdateFeaturesResponse
from ottla.wire.resources import ConfigResourceType
from tests.broker.controller.support import ELR, Controller

INVALID_UPDATE_VERSION = 95
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
PREFIX = "The update failed for all features since the following feature had an error: "


@pytest.fixture
def controller() -> Controller:
    controller = Controller(elr=False)
    controller.commit(controller.state.bootstrap())
    return controller


def update(
    controller: Controller, *updates: tuple[str, int, int], version: int = 2, validate_only: bool = False
) -> UpdateFeaturesResponse:
    keys = [
        UpdateFeaturesRequest.FeatureUpdateKey(
            feature=feature, max_version_level=level, upgrade_type=type_, allow_downgrade=type_ != UPGRADE
        )
        for feature, level, type_ in updates
    ]
    request = UpdateFeaturesRequest(feature_updates=keys, validate_only=validate_only)
    return controller.carry_out(controller.state.update_features(request, version))


def test_a_new_cluster_runs_every_feature_at_its_highest_level(controller: Controller) -> None:
    assert controller.log[0] == FeatureLevelRecord("group.version", 1)
    assert controller.state.image.features == {"group.version": 1}


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_feature_is_turned_off_and_on_again(controller: Controller, version: int) -> None:
    answer = update(controller, ("group.version", 0, SAFE_DOWNGRADE), version=version)
    assert (answer.error_code, answer.error_message) == (0, None)
    assert [(result.feature, result.error_message) for result in answer.results] == (
        [("group.version", "NONE")] if version < 2 else []
    )
    assert controller.state.image.features == {}
    assert update(controller, ("group.version", 1, UPGRADE), version=version).error_code == 0
    assert controller.state.image.features == {"group.version": 1}


def test_validate_only_changes_nothing(controller: Controller) -> None:
    assert update(controller, ("group.version", 0, SAFE_DOWNGRADE), validate_only=True).error_code == 0
    assert controller.state.image.features == {"group.version": 1}


@pytest.mark.parametrize(
    ("feature", "level", "type_", "sentence"),
    [
        (
            "nope",
            1,
            UPGRADE,
            "Invalid update version 1 for feature nope. Local controller 3000 does not support this feature.",
        ),
        ("nope", 0, SAFE_DOWNGRADE, "Invalid update version 0 for feature nope. Feature nope not found."),
        (
            "group.version",
            9,
            UPGRADE,
            "Invalid update version 9 for feature group.version. Local controller 3000 only supports versions 0-1",
        ),
        (
            "group.version",
            0,
            UPGRADE,
            "Invalid update version 0 for feature group.version. Can't downgrade the version of this feature "
            "without setting the upgrade type to either safe or unsafe downgrade.",
        ),
        (
            "group.version",
            -1,
            SAFE_DOWNGRADE,
            "Invalid update version -1 for feature group.version. A feature version cannot be less than 0.",
        ),
        (
            "group.version",
            0,
            9,
            "Invalid update version 0 for feature group.version. The controller does not support the given "
            "upgrade type.",
        ),
    ],
)
def test_a_bad_update_is_refused(
    controller: Controller, feature: str, level: int, type_: int, sentence: str
) -> None:
    answer = update(controller, (feature, level, type_))
    assert (answer.error_code, answer.error_message) == (INVALID_UPDATE_VERSION, PREFIX + sentence)


@pytest.mark.parametrize(
    ("type_", "why"),
    [
        (
            SAFE_DOWNGRADE,
            "Refusing to perform the requested downgrade because it might delete metadata information.",
        ),
        (UNSAFE_DOWNGRADE, "Unsafe metadata downgrade is not supported in this version."),
    ],
)
def test_the_metadata_version_does_not_go_down(controller: Controller, type_: int, why: str) -> None:
    controller.state.supported_features["metadata.version"] = (7, 30)
    controller.commit([FeatureLevelRecord("metadata.version", 30)])
    answer = update(controller, ("metadata.version", 29, type_))
    assert answer.error_message == f"{PREFIX}Unsupported metadata.version downgrade from 30 to 29. {why}"


def test_of_two_bad_updates_kafka_tells_the_one_that_its_hash_table_has_first(controller: Controller) -> None:
    for names in (("no.such.feature", "no.such.other"), ("no.such.other", "no.such.feature")):
        answer = update(controller, *((name, 1, UPGRADE) for name in names))
        assert answer.error_message is not None
        assert "for feature no.such.feature." in answer.error_message


def test_a_downgrade_goes_down(controller: Controller) -> None:
    update(controller, ("group.version", 0, UNSAFE_DOWNGRADE))
    answer = update(controller, ("group.version", 1, UNSAFE_DOWNGRADE))
    assert answer.error_message is not None
    assert answer.error_message.endswith("Can't downgrade to a newer version.")


def test_one_bad_update_fails_all(controller: Controller) -> None:
    answer = update(controller, ("group.version", 0, SAFE_DOWNGRADE), ("nope", 1, UPGRADE))
    assert answer.error_code == INVALID_UPDATE_VERSION
    assert controller.state.image.features == {"group.version": 1}


def test_every_broker_has_to_support_the_level(controller: Controller) -> None:
    update(controller, ("group.version", 0, SAFE_DOWNGRADE))
    old = BrokerRegistrationRequest.Feature(
        name="group.version", min_supported_version=0, max_supported_version=0
    )
    controller.register(4, features=[old])
    answer = update(controller, ("group.version", 1, UPGRADE))
    assert answer.error_message == (
        f"{PREFIX}Invalid update version 1 for feature group.version. Broker 4 only supports versions 0-0"
    )
    controller.register(4)
    answer = update(controller, ("group.version", 1, UPGRADE))
    assert answer.error_message is not None
    assert answer.error_message.endswith("Broker 4 does not support this feature.")


def test_eligible_leader_replicas_come_with_one_size_of_the_isr_for_all_brokers() -> None:
    controller = Controller(elr=False, min_insync_replicas=2)
    controller.state.supported_features[ELR] = (0, 1)
    controller.commit([ConfigRecord(ConfigResourceType.BROKER, "1", MIN_ISR, "3")])
    before = len(controller.log)
    assert update(controller, (ELR, 1, UPGRADE)).error_code == 0
    assert controller.log[before:] == [
        ConfigRecord(ConfigResourceType.BROKER, "", MIN_ISR, "2"),
        ConfigRecord(ConfigResourceType.BROKER, "1", MIN_ISR, None),
        FeatureLevelRecord(ELR, 1),
    ]
    before = len(controller.log)
    assert update(controller, (ELR, 0, SAFE_DOWNGRADE)).error_code == 0
    assert update(controller, (ELR, 1, UPGRADE)).error_code == 0
    assert controller.log[before:] == [FeatureLevelRecord(ELR, 0), FeatureLevelRecord(ELR, 1)]
