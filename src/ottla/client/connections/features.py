"""What the whole cluster has agreed to (KIP-584): the finalized levels of its features, as the newest broker says.

Every connection begins with a response that names them. Brokers hear of a change one after the other, so of two that
disagree the one with the higher epoch counts, whichever was connected to last.
"""

from __future__ import annotations

from typing import Final

from ottla.wire.messages import ApiVersionsResponse

TRANSACTION_VERSION: Final = "transaction.version"
_NO_EPOCH: Final = -1


class FinalizedFeatures:
    """The features of one client's cluster."""

    def __init__(self) -> None:
        self._epoch = _NO_EPOCH
        self._levels: dict[str, int] = {}

    def learn(self, response: ApiVersionsResponse) -> None:
        """Takes what a broker says, unless it is behind; one without an epoch knows of no features."""
        if response.finalized_features_epoch == _NO_EPOCH or response.finalized_features_epoch < self._epoch:
            return
        self._epoch = response.finalized_features_epoch
        self._levels = {each.name: each.max_version_level for each in response.finalized_features}

    def level(self, name: str) -> int:
        """0 where no broker has named the feature."""
        return self._levels.get(name, 0)
