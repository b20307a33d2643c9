"""The id of a streaming query, which stays the same over restarts, read where Spark keeps it: in the checkpoint.

A task is told the id of its query; the process in which a stream's writer is made is not. But it is told the option
checkpointLocation, and the file `metadata` is in there before the first micro-batch runs.

Not here: what the id is for (`transactional`).
"""

from __future__ import annotations

import json
from typing import Final

from ottla.spark.checkpoint_files import contents
from ottla.spark.options.parsing import OptionError, logger

_ADVICE: Final = (
    "set ottla.sink.id to a name that this query keeps over restarts and no other query has, or ottla.delivery to "
    "at-least-once"
)


def query_id_of(checkpoint: str | None, *, required: bool) -> str | None:
    """The id that the checkpoint belongs to; if it cannot be read, None or an OptionError that says what to set."""
    try:
        return _read_id(checkpoint)
    except OptionError as error:
        if required:
            raise
        logger.debug("%s", error)
        return None


def _read_id(checkpoint: str | None) -> str:
    if checkpoint is None:
        raise OptionError(
            "exactly-once delivery needs the id of the query, which stands in its checkpoint, and the sink is not "
            "told where that is. Give checkpointLocation as an option of the query, as Spark keeps "
            f"spark.sql.streaming.checkpointLocation to itself. Else: {_ADVICE}"
        )
    place = f"{checkpoint.rstrip('/')}/metadata"
    try:
        found = json.loads(contents(place))["id"]
    # Arrow's own errors are among them: it raises OSError for a store, ValueError for a scheme that it does not know.
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OptionError(
            f"exactly-once delivery needs the id of the query, which cannot be read from {place} "
            f"({type(error).__name__}: {error}): {_ADVICE}"
        ) from error
    if not isinstance(found, str) or not found:
        raise OptionError(f"{place} has no id of a query in it, but {found!r}: {_ADVICE}")
    return found
