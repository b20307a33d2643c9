"""Of brokers that disagree about the cluster's features, the one that is ahead counts."""

from __future__ import annotations

from ottla.client.connections.features import FinalizedFeatures
from ottla.wire.messages import ApiVersionsResponse


def said(epoch: int, **levels: int) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        finalized_features_epoch=epoch,
        finalized_features=[
            ApiVersionsResponse.FinalizedFeatureKey(
                name=name, max_version_level=level, min_version_level=level
            )
            for name, level in levels.items()
        ],
    )


def test_a_feature_that_no_broker_names_has_level_0() -> None:
    assert FinalizedFeatures().level("transactions") == 0


def test_the_higher_epoch_counts_whichever_comes_last() -> None:
    features = FinalizedFeatures()
    features.learn(said(5, transactions=1))
    features.learn(said(7, transactions=2))
    features.learn(said(6, transactions=1))
    assert features.level("transactions") == 2
    features.learn(said(8))
    assert features.level("transactions") == 0


def test_a_broker_without_an_epoch_says_nothing() -> None:
    features = FinalizedFeatures()
    features.learn(said(5, transactions=1))
    features.learn(said(-1, transactions=2))
    assert features.level("transactions") == 1
