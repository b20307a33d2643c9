"""Whether the values of a pipeline are of the types that its dataclasses declare, and one of those they name.

A pipeline in Python is not always under a type checker; of one from a file, `file` has said it already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from ottla.spark.pipeline.mistakes import Mistake, Where, is_secret
from ottla.spark.pipeline.texts import alternatives, did_you_mean

if TYPE_CHECKING:
    from ottla.spark.pipeline.model import Pipeline

_FLAGS: Final = frozenset({"table", "nested"})
_OPTIONAL: Final = frozenset({"pattern", "schema", "watermark", "dead_letter", "key", "where"})


def choice(where: Where, value: str, known: Iterable[str]) -> Iterator[Mistake]:
    """A mistake if the value is none of those that there are."""
    known = tuple(known)
    if value not in known:
        advice = did_you_mean(value, known) or f" write {alternatives(known)}"
        yield Mistake(where, f"{value!r} is none that there is;{advice}")


def type_mistakes(pipeline: Pipeline) -> Iterator[Mistake]:
    yield from _text(("name",), pipeline.name)
    for key in ("mode", "delivery"):
        yield from _text((key,), getattr(pipeline, key))
    for key in ("checkpoint", "trigger"):
        yield from _text((key,), getattr(pipeline, key), optional=True)
    for key in ("kafka", "spark"):
        yield from _texts_by_name((key,), getattr(pipeline, key))
    transform: object = pipeline.transform
    if not (transform is None or isinstance(transform, str) or callable(transform)):
        yield Mistake(("transform",), f"it is {_kind(transform)}; it must be SQL or a function")
    yield from _members("sources", pipeline.sources)
    yield from _members("sinks", pipeline.sinks)


def _members(kind: str, members: object) -> Iterator[Mistake]:
    from ottla.spark.pipeline.model import TopicSink, TopicSource

    wanted = TopicSource if kind == "sources" else TopicSink
    if not isinstance(members, Mapping):
        yield Mistake((kind,), f"it is {_kind(members)}; it must be a dict of {wanted.__name__} by name")
        return
    for name, member in members.items():
        if not isinstance(name, str):
            yield Mistake((kind,), f"the name {name!r} is {_kind(name)}; it must be text")
        elif not isinstance(member, wanted):
            yield Mistake((kind, name), f"it is {_kind(member)}; it must be a {wanted.__name__}")
        else:
            yield from _fields((kind, name), vars(member))


def _fields(where: Where, fields: Mapping[str, object]) -> Iterator[Mistake]:
    for key, value in fields.items():
        if key in _FLAGS:
            if not isinstance(value, bool):
                yield Mistake((*where, key), f"it is {_kind(value)}; it must be True or False")
        elif key in ("topics", "columns"):
            yield from _tuple_of_texts((*where, key), value)
        elif key == "options":
            yield from _texts_by_name((*where, key), value)
        elif key == "watermark":
            yield from _watermark((*where, key), value)
        else:
            yield from _text((*where, key), value, optional=key in _OPTIONAL)


def _text(where: Where, value: object, *, optional: bool = False) -> Iterator[Mistake]:
    if not isinstance(value, str) and not (optional and value is None):
        yield Mistake(where, f"it is {_kind(value)}; it must be text")


def _tuple_of_texts(where: Where, value: object) -> Iterator[Mistake]:
    if isinstance(value, str):
        yield Mistake(where, f"it is text; it must be a tuple of texts, ({value!r},)")
    elif not isinstance(value, tuple | list) or not all(isinstance(each, str) for each in value):
        yield Mistake(where, "it must be a tuple of texts")


def _texts_by_name(where: Where, value: object) -> Iterator[Mistake]:
    if not isinstance(value, Mapping):
        yield Mistake(where, f"it is {_kind(value)}; it must be a dict of texts")
        return
    for name, text in value.items():
        if not isinstance(name, str):
            yield Mistake(where, f"the name {name!r} is {_kind(name)}; it must be text")
        elif not isinstance(text, str):
            shown = f", {_as_text(text)!r}" if isinstance(text, bool | int) and not is_secret(name) else ""
            yield Mistake((*where, name), f"it is {_kind(text)}; it must be text{shown}")


def _watermark(where: Where, value: object) -> Iterator[Mistake]:
    from ottla.spark.pipeline.model import Watermark

    if value is None:
        return
    if not isinstance(value, Watermark):
        yield Mistake(where, f"it is {_kind(value)}; it must be a Watermark")
        return
    yield from _text((*where, "column"), value.column)
    yield from _text((*where, "delay"), value.delay)


def _as_text(value: bool | int) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _kind(value: object) -> str:
    """
    >>> _kind(3), _kind(None)
    ('a number', 'None')
    """
    match value:
        case None:
            return "None"
        case bool():
            return "a flag"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list() | tuple():
            return "a list"
        case Mapping():
            return "a table"
    return f"of type {type(value).__name__}"
