"""What must hold in every state that can be reached."""

from __future__ import annotations

from tests.spark.sink.exactly_once.model.state import ROWS, State


def broken_rule(state: State) -> str:
    """The first rule that does not hold, in words; empty if all do."""
    if state.broken:
        return state.broken
    for number, times in enumerate(state.rows):
        batch, row = divmod(number, ROWS)
        if times > 1:
            return f"row {row} of batch {batch} is there twice"
        if not times and batch < state.committed:
            return f"row {row} of batch {batch} is lost, which Spark has committed"
    for driver in state.drivers:
        if driver.step == "done" and 0 in state.rows[driver.batch * ROWS : (driver.batch + 1) * ROWS]:
            return f"batch {driver.batch} is not all there when its commit returns"
    return ""
