"""An error as one line for a person, with the closest name for what was not found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from ottla import errors


def sentence(error: BaseException) -> str:
    """What went wrong, in one line: the error that says most, with its notes."""
    told = _telling(error)
    text = (
        _os_text(told) if isinstance(told, OSError) and not isinstance(told, errors.KafkaError) else str(told)
    )
    notes = [*getattr(told, "__notes__", ()), *(getattr(error, "__notes__", ()) if told is not error else ())]
    joined = "; ".join(part for part in (text or type(told).__name__, *notes) if part)
    return " ".join(joined.split())


def unknown_topic(name: str, existing: Iterable[str]) -> errors.KafkaError:
    """There is no such topic, and what may have been meant."""
    names = sorted(existing)
    if close := get_close_matches(name, names, n=3):
        advice = f"did you mean {' or '.join(close)}?"
    elif names:
        advice = "`ottla topic list` shows those that exist"
    else:
        advice = f"the cluster has none; `ottla topic create {name}` makes it"
    return errors.KafkaError(f"there is no topic {name}: {advice}")


def _telling(error: BaseException) -> BaseException:
    """A timeout says that something took too long; what it was is told by its cause."""
    for cause in _causes(error):
        if isinstance(cause, errors.NoBrokersError | errors.ConnectionFailedError):
            return cause
    if isinstance(error, errors.DeliveryError) and error.__cause__ is not None:
        return error.__cause__
    return error


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__


def _os_text(error: OSError) -> str:
    if error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)
