"""The cluster: its brokers, its features, and what they speak."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from ottla.client.admin.base import AdminBase
from ottla.client.admin.results import (
    BrokerDescription,
    ClusterDescription,
    Features,
    LogDir,
    ReplicaSize,
    Results,
    VersionRange,
)
from ottla.client.metadata import ClusterView
from ottla.client.topic_partition import TopicPartition
from ottla.errors import KafkaError, UnsupportedApiError, from_code, raise_for_code
from ottla.wire import api_for_key, api_keys
from ottla.wire.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

_NO_BROKER: Final = -1
_UPGRADES: Final = {"upgrade": 1, "safe_downgrade": 2, "unsafe_downgrade": 3}


class ClusterAdmin(AdminBase):
    """What can be read about the cluster, and changed in it as a whole."""

    async def describe_cluster(self, *, timeout: float | None = None) -> ClusterDescription:
        """The cluster's id and its brokers."""
        deadline = self._deadline(timeout)
        try:
            response = await self._send(DescribeClusterRequest(), DescribeClusterResponse, timeout)
        except UnsupportedApiError:
            # Before 2.8 (KIP-700) metadata says it.
            return _described(await self._metadata.fresh([], max_age=0.0, timeout=deadline.left()))
        raise_for_code(response.error_code, response.error_message)
        return ClusterDescription(
            cluster_id=response.cluster_id,
            controller_id=None if response.controller_id == _NO_BROKER else response.controller_id,
            brokers=tuple(
                BrokerDescription(broker.broker_id, broker.host, broker.port, broker.rack, broker.is_fenced)
                for broker in sorted(response.brokers, key=lambda broker: broker.broker_id)
            ),
        )

    async def list_brokers(self, *, timeout: float | None = None) -> tuple[BrokerDescription, ...]:
        """The brokers that are alive, by id."""
        return _described(await self._metadata.fresh([], max_age=0.0, timeout=timeout)).brokers

    async def api_versions(self, broker: int, *, timeout: float | None = None) -> dict[str, VersionRange]:
        """The versions of each API that a broker serves, by Kafka's name; without those unknown here."""
        response = await self._send(_api_versions_request(), ApiVersionsResponse, timeout, broker)
        raise_for_code(response.error_code, broker=broker)
        known = dict.fromkeys(api_keys())
        return {
            api_for_key(api.api_key).name: VersionRange(api.min_version, api.max_version)
            for api in response.api_keys
            if api.api_key in known
        }

    async def describe_features(self, *, broker: int | None = None, timeout: float | None = None) -> Features:
        """The levels of features such as metadata.version, as `broker` or any other knows them."""
        response = await self._send(_api_versions_request(), ApiVersionsResponse, timeout, broker)
        raise_for_code(response.error_code, broker=broker)
        epoch = response.finalized_features_epoch
        return Features(
            finalized={
                feature.name: VersionRange(feature.min_version_level, feature.max_version_level)
                for feature in response.finalized_features
            },
            supported={
                feature.name: VersionRange(feature.min_version, feature.max_version)
                for feature in response.supported_features
            },
            epoch=None if epoch < 0 else epoch,
        )

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        kind: Literal["upgrade", "safe_downgrade", "unsafe_downgrade"] = "upgrade",
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Sets feature levels, all or none; level 0 switches a feature off."""
        update = UpdateFeaturesRequest.FeatureUpdateKey
        request = UpdateFeaturesRequest(
            timeout_ms=self._timeout_ms(timeout),
            feature_updates=[
                update(feature=name, max_version_level=level, upgrade_type=_UPGRADES[kind])
                for name, level in levels.items()
            ],
            validate_only=validate_only,
        )
        response = await self._send(request, UpdateFeaturesResponse, timeout)
        raise_for_code(response.error_code, response.error_message)
        for result in response.results:
            raise_for_code(result.error_code, result.error_message)

    async def describe_log_dirs(
        self, brokers: Iterable[int] | None = None, *, timeout: float | None = None
    ) -> Results[int, dict[str, LogDir]]:
        """The log directories of these brokers, or of all: what lies in them, by path.

        A broker that could not be reached is in `errors` of the result, if others could.

            for broker, directories in kafka.admin.describe_log_dirs().items():
                for path, directory in directories.items():
                    print(broker, path, sum(replica.size for replica in directory.replicas.values()))
        """
        found: dict[int, dict[str, LogDir]] = {}
        failed: dict[int, KafkaError] = {}
        request = DescribeLogDirsRequest(topics=None)
        if brokers is not None:
            for broker in dict.fromkeys(brokers):
                try:
                    response = await self._send(request, DescribeLogDirsResponse, timeout, broker)
                    found[broker] = _log_dirs(response, broker)
                except KafkaError as error:
                    failed[broker] = error
            return Results(found, failed).checked("collect" if found else "raise")
        for shard in await self._requests.fan_out(request, timeout=timeout):
            if isinstance(shard.response, DescribeLogDirsResponse) and shard.broker is not None:
                found[shard.broker] = _log_dirs(shard.response, shard.broker)
            elif shard.error is not None:
                failed[_NO_BROKER if shard.broker is None else shard.broker] = shard.error
        return Results(found, failed).checked("collect" if found else "raise")


def _described(view: ClusterView) -> ClusterDescription:
    return ClusterDescription(
        cluster_id=view.cluster_id or "",
        controller_id=None if view.controller_id == _NO_BROKER else view.controller_id,
        brokers=tuple(
            BrokerDescription(node_id, broker.host, broker.port, broker.rack)
            for node_id, broker in sorted(view.brokers.items())
        ),
    )


def _api_versions_request() -> ApiVersionsRequest:
    """Kafka wants a name and a version of software in the form that names and versions have (KIP-511)."""
    return ApiVersionsRequest(client_software_name="ottla", client_software_version="admin")


def _log_dirs(response: DescribeLogDirsResponse, broker: int) -> dict[str, LogDir]:
    raise_for_code(response.error_code, broker=broker)
    return {
        result.log_dir: LogDir(
            error=from_code(result.error_code, broker=broker),
            total_bytes=None if result.total_bytes < 0 else result.total_bytes,
            usable_bytes=None if result.usable_bytes < 0 else result.usable_bytes,
            replicas={
                TopicPartition(topic.name, partition.partition_index): ReplicaSize(
                    partition.partition_size, partition.offset_lag, partition.is_future_key
                )
                for topic in result.topics
                for partition in topic.partitions
            },
            cordoned=result.is_cordoned,
        )
        for result in response.results
    }
