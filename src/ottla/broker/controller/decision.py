"""What a decision looks at, and what it comes to.

A decision reads the image as it is and returns the records that would change it; only state.py applies them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from ottla.broker.metadata.features import ELIGIBLE_LEADER_REPLICAS
from ottla.broker.metadata.image import MetadataImage
from ottla.broker.metadata.records import MetadataRecord
from ottla.errors import RequestTimedOutError, StaleBrokerEpochError
from ottla.wire.messages import AlterConfigsRequest, CreateTopicsResponse, IncrementalAlterConfigsRequest
from ottla.wire.resources import ConfigResourceType

if TYPE_CHECKING:
    from ottla.broker.controller.brokers import BrokerSessions
    from ottla.broker.controller.placement import Random

CONTROLLER_ID: Final = 3000
"""Apart from every broker's id, as in a KRaft cluster whose controllers are nodes of their own."""

MAX_RECORDS: Final = 10_000
"""What one request may add to the metadata log."""

MIN_ISR: Final = "min.insync.replicas"

ResponseT = TypeVar("ResponseT", covariant=True)


@dataclass(frozen=True, slots=True)
class Decision(Generic[ResponseT]):
    """Records for the metadata log, in order, and the response to the request."""

    records: Sequence[MetadataRecord]
    response: ResponseT


def check_time(timeout_ms: int) -> None:
    """A controller that is given no time gives a request up before it looks at it, whatever is wrong with it."""
    if timeout_ms <= 0:
        raise RequestTimedOutError()


class ConfigRules(Protocol):
    """What the controller has to know about configs. Overrides are text by name, as the image keeps them.

    `defaults` are the overrides that hold for every broker of the cluster.
    """

    def value(self, name: str) -> Any:
        """The controller's own setting, typed: `num.partitions`, `broker.session.timeout.ms` and the like."""

    def topic_value(self, name: str, overrides: Mapping[str, str], defaults: Mapping[str, str]) -> Any:
        """A topic's setting, typed."""

    def validate_topic(self, overrides: Mapping[str, str]) -> None:
        """Raises the BrokerError with which Kafka refuses a new topic with these."""

    def describe_topic(
        self, overrides: Mapping[str, str], defaults: Mapping[str, str]
    ) -> list[CreateTopicsResponse.CreatableTopicConfigs]:
        """Every config of a new topic, by name."""

    def alter(
        self, resource: AlterConfigsRequest.AlterConfigsResource, current: Mapping[str, str], *, elr: bool
    ) -> Mapping[str, str]:
        """The overrides after replacing them all, or the BrokerError of a refusal.

        `elr` says that the cluster keeps eligible leader replicas, which bind min.insync.replicas.
        """

    def incremental_alter(
        self,
        resource: IncrementalAlterConfigsRequest.AlterConfigsResource,
        current: Mapping[str, str],
        *,
        elr: bool,
    ) -> Mapping[str, str]:
        """The overrides after changing some, or the BrokerError of a refusal; `elr` as for `alter`."""


@dataclass(frozen=True, slots=True)
class Context:
    """All that a decision may read."""

    image: MetadataImage
    sessions: BrokerSessions
    configs: ConfigRules
    random: Random

    def check_broker_epoch(self, broker_id: int, broker_epoch: int) -> None:
        """Only the latest incarnation of a broker may send requests."""
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            raise StaleBrokerEpochError(f"No broker registration found for broker id {broker_id}")
        if broker.epoch != broker_epoch:
            raise StaleBrokerEpochError(
                f"Expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}"
            )

    def topic_config(self, topic: str, name: str) -> Any:
        overrides = self.image.config_overrides(ConfigResourceType.TOPIC, topic)
        return self.configs.topic_value(name, overrides, self.config_defaults)

    @property
    def keeps_elr(self) -> bool:
        """Whether eligible leader replicas are on (KIP-966)."""
        return self.image.features.get(ELIGIBLE_LEADER_REPLICAS.name, 0) > 0

    @property
    def config_defaults(self) -> Mapping[str, str]:
        return self.image.config_overrides(ConfigResourceType.BROKER, "")
