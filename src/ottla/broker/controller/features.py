"""The levels at which the whole cluster runs its features (KIP-584): all of an update happens, or none.

Eligible leader replicas need one min.insync.replicas for all brokers: with the feature it becomes the cluster's
(KIP-966).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ottla.broker.configs.names import hash_order
from ottla.broker.controller.decision import CONTROLLER_ID, MIN_ISR, Context, Decision
from ottla.broker.metadata.features import ELIGIBLE_LEADER_REPLICAS, METADATA_VERSION
from ottla.broker.metadata.records import ConfigRecord, FeatureLevelRecord, MetadataRecord
from ottla.errors import BrokerError, InvalidUpdateVersionError
from ottla.wire.messages import UpdateFeaturesRequest, UpdateFeaturesResponse
from ottla.wire.resources import ConfigResourceType

_UPGRADE: Final = 1
_SAFE_DOWNGRADE: Final = 2
_UNSAFE_DOWNGRADE: Final = 3
_ONE_RESULT_SINCE: Final = 2


def update_features(
    context: Context,
    request: UpdateFeaturesRequest,
    version: int,
    supported: Mapping[str, tuple[int, int]],
) -> Decision[UpdateFeaturesResponse]:
    response = UpdateFeaturesResponse(error_message=None)
    records: list[MetadataRecord] = []
    try:
        updates = {update.feature: update for update in request.feature_updates}
        for name in hash_order(updates):
            update = updates[name]
            _check(context, update, version, supported)
            records.append(FeatureLevelRecord(update.feature, update.max_version_level))
            if name == ELIGIBLE_LEADER_REPLICAS.name and update.max_version_level:
                records[:0] = one_min_isr(context)
    except BrokerError as error:
        response.error_code = error.code
        response.error_message = (
            f"The update failed for all features since the following feature had an error: {error.message}"
        )
        return Decision([], response)
    if version < _ONE_RESULT_SINCE:
        response.results = [
            UpdateFeaturesResponse.UpdatableFeatureResult(feature=update.feature, error_message="NONE")
            for update in request.feature_updates
        ]
    return Decision([] if request.validate_only else records, response)


def one_min_isr(context: Context) -> Iterator[ConfigRecord]:
    """Makes min.insync.replicas a config of the whole cluster, that no broker has for itself."""
    if MIN_ISR not in context.config_defaults:
        yield ConfigRecord(ConfigResourceType.BROKER, "", MIN_ISR, str(context.configs.value(MIN_ISR)))
    for (resource_type, name), overrides in context.image.configs.items():
        if resource_type == ConfigResourceType.BROKER and name and MIN_ISR in overrides:
            yield ConfigRecord(resource_type, name, MIN_ISR, None)


def _check(
    context: Context,
    update: UpdateFeaturesRequest.FeatureUpdateKey,
    version: int,
    supported: Mapping[str, tuple[int, int]],
) -> None:
    level, upgrade_type = update.max_version_level, _upgrade_type(update, version)
    reason = _why_not(context, update, upgrade_type, supported)
    if reason is not None:
        raise InvalidUpdateVersionError(
            f"Invalid update version {level} for feature {update.feature}. {reason}"
        )
    if update.feature == METADATA_VERSION.name:
        _check_metadata_version(context.image.features.get(update.feature, 0), level, upgrade_type)


def _upgrade_type(update: UpdateFeaturesRequest.FeatureUpdateKey, version: int) -> int:
    if version > 0:
        return update.upgrade_type
    return _SAFE_DOWNGRADE if update.allow_downgrade else _UPGRADE


def _why_not(
    context: Context,
    update: UpdateFeaturesRequest.FeatureUpdateKey,
    upgrade_type: int,
    supported: Mapping[str, tuple[int, int]],
) -> str | None:
    level = update.max_version_level
    if upgrade_type not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    unsupported = _unsupported(context, update.feature, level, supported)
    if unsupported is not None:
        return unsupported
    current = context.image.features.get(update.feature, 0)
    if level < current and upgrade_type == _UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
    if level > current and upgrade_type != _UPGRADE:
        return "Can't downgrade to a newer version."
    if update.feature not in supported:
        return f"Feature {update.feature} not found."
    return None


def _check_metadata_version(current: int, level: int, upgrade_type: int) -> None:
    """The latest level changed what the metadata log holds, so there is no way back from it."""
    if level < current:
        why = (
            "Unsafe metadata downgrade is not supported in this version."
            if upgrade_type == _UNSAFE_DOWNGRADE
            else "Refusing to perform the requested downgrade because it might delete metadata information."
        )
        raise InvalidUpdateVersionError(
            f"Unsupported {METADATA_VERSION.name} downgrade from {current} to {level}. {why}"
        )


def _unsupported(
    context: Context, feature: str, level: int, supported: Mapping[str, tuple[int, int]]
) -> str | None:
    """Who cannot run this level of the feature: the controller, or some broker."""
    ranges = [(f"Local controller {CONTROLLER_ID}", supported.get(feature))]
    for broker in sorted(context.image.brokers.values(), key=lambda broker: broker.id):
        known = {known.name: (known.min_version, known.max_version) for known in broker.features}
        ranges.append((f"Broker {broker.id}", known.get(feature)))
    for who, range_ in ranges:
        if range_ is None:
            if level:
                return f"{who} does not support this feature."
        elif not range_[0] <= level <= range_[1]:
            return f"{who} only supports versions {range_[0]}-{range_[1]}"
    return None
