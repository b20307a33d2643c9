"""Lets each change of an account through once, and none that is older than one that came out before."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

_CHANGE = "account string, version bigint, owner string, cents bigint, at timestamp"
_STATE = "newest bigint"


def each_once(changes: DataFrame) -> DataFrame:
    return (
        changes.select("account", "version", "owner", "cents", "at")
        .groupBy("account")
        .applyInPandasWithState(newer, _CHANGE, _STATE, "update", GroupStateTimeout.NoTimeout)
    )


def newer(account: tuple[str], parts: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """What a micro-batch has of one account; Spark hands it over in parts, in any order."""
    (newest,) = state.getOption or (0,)
    changes = pd.concat(parts)
    fresh = changes[changes["version"] > newest].drop_duplicates("version").sort_values("version")
    if len(fresh):
        state.update((int(fresh["version"].iloc[-1]),))
        yield fresh
