"""pipeline.toml to a Pipeline, with the line of each mistake.

    pipeline.toml:12: [sources.orders] format: 'jsn' is none that there is; did you mean json?

Names of keys are here; what a pipeline may be is in `checks`, whose mistakes get their lines here, by the keys that
they were read from. How single values are read is in `tables`.

Invariant: a file is read whole, or refused with everything that is wrong with it.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.spark.options.parsing import OptionError
from ottla.spark.pipeline import transform as transforms
from ottla.spark.pipeline.document import Document
from ottla.spark.pipeline.lines import key_lines
from ottla.spark.pipeline.mistakes import Mistake, PipelineError
from ottla.spark.pipeline.tables import PIPELINE_KEYS, Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.spark.pipeline.model import Pipeline, Transform, Watermark

_OVERRIDES: Final = ("checkpoint", "trigger", "mode", "delivery")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def load(
    path: str | Path,
    *,
    environment: Mapping[str, str] = os.environ,
    overrides: Mapping[str, str] | None = None,
) -> Pipeline:
    """The pipeline of a file; PipelineError has all mistakes, each with its line.

    `overrides` beat the file: checkpoint, trigger, mode and delivery by these names, properties of Kafka's client as
    kafka.bootstrap.servers, settings of Spark by their full names. A checkpoint among them is relative to the working
    directory, one in the file to the file.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise PipelineError(
            [Mistake((), str(error))], f"{path}: it cannot be read: {error.strerror}"
        ) from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise PipelineError([Mistake((), str(error))], f"{path}:{line}: this is not UTF-8") from None
    return parse(text, path.absolute().parent, file=str(path), environment=environment, overrides=overrides)


def parse(
    text: str,
    folder: Path,
    *,
    file: str = "pipeline.toml",
    environment: Mapping[str, str] = os.environ,
    overrides: Mapping[str, str] | None = None,
) -> Pipeline:
    """The pipeline of a text; `folder` is what paths in it are relative to, `file` what messages call it."""
    from ottla.spark.pipeline.model import Pipeline

    document = Document(_toml(text, file), key_lines(text), environment, folder)
    for name, value in (overrides or {}).items():
        _override(document, name, value)
    values = _pipeline(document, Path(file).stem)
    try:
        pipeline = Pipeline(**values)
    except PipelineError as error:
        document.adopt(error.mistakes)
        raise document.error(file) from None
    if document.mistakes:
        raise document.error(file)
    return pipeline


def _toml(text: str, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        what, _, place = str(error).partition(" (at ")
        found = re.match(r"line (\d+), column (\d+)", place)
        line = int(found[1]) if found else text.rstrip().count("\n") + 1
        column = f" (column {found[2]})" if found else ""
        said = f"this is not TOML: {what[:1].lower()}{what[1:]}{column}"
        raise PipelineError([Mistake((), said)], f"{file}:{line}: {said}") from None


def _override(document: Document, name: str, value: str) -> None:
    table, _, rest = name.partition(".")
    if name in _OVERRIDES:
        # An empty one is a mistake, and not the working directory.
        is_path = name == "checkpoint" and value.strip() and _is_local(value)
        document.override((name,), os.path.abspath(value) if is_path else value)
    elif table == "kafka" and rest:
        document.override(("kafka", rest), value)
    elif table == "spark" and rest:
        document.override(("spark", name), value)
    else:
        raise OptionError(
            f"{name!r} cannot be overridden: {', '.join(_OVERRIDES)} can, and names that begin with kafka. or spark."
        )


# The keys


def _pipeline(document: Document, stem: str) -> dict[str, Any]:
    top = Table(document, document.data)
    name, checkpoint = top.text("name"), top.text("checkpoint")
    values = {
        "name": stem if name is None else name,
        "checkpoint": None if checkpoint is None else _beside(checkpoint, document.folder),
        "trigger": top.text("trigger"),
        "kafka": top.properties("kafka"),
        "sources": {name: _source(table) for name, table in top.tables("sources")},
        "transform": _transform(top, document.folder),
        "sinks": {name: _sink(table) for name, table in top.tables("sinks")},
        "spark": top.properties("spark"),
        **_given(mode=top.text("mode"), delivery=top.text("delivery")),
    }
    top.close(PIPELINE_KEYS)
    return values


def _source(table: Table) -> Any:
    from ottla.spark.pipeline.model import TopicSource

    values = _given(
        topics=table.one_or_more("topic", "topics"),
        pattern=table.text("pattern"),
        format=table.text("format"),
        schema=_schema(table),
        start=table.offsets("start"),
        table=table.flag("table"),
        watermark=_watermark(table),
        malformed=table.text("malformed"),
        dead_letter=table.text("dead-letter"),
        isolation=table.text("isolation"),
        nested=table.flag("nested"),
    )
    source = TopicSource(**values, options=table.properties("options"))
    table.close()
    return source


def _sink(table: Table) -> Any:
    from ottla.spark.pipeline.model import TopicSink

    values = _given(
        topic=table.text("topic") or "",
        format=table.text("format"),
        schema=_schema(table),
        key=table.text("key"),
        columns=table.texts("columns"),
        where=table.text("where"),
        output=table.text("output"),
    )
    sink = TopicSink(**values, options=table.properties("options"))
    table.close()
    return sink


def _schema(table: Table) -> str | None:
    text: str | None = table.either({"schema": table.text, "schema-file": table.contents})
    return text


def _watermark(source: Table) -> Watermark | None:
    from ottla.spark.pipeline.model import Watermark

    table = source.table("watermark", 'write watermark = { column = "at", delay = "10 seconds" }')
    if table is None:
        return None
    column, delay = table.text("column"), table.text("delay")
    for key, value in (("column", column), ("delay", delay)):
        if value is None and not table.has(key):
            table.mistake('it is missing; write { column = "at", delay = "10 seconds" }', key)
    table.close()
    return None if column is None or delay is None else Watermark(column=column, delay=delay)


def _transform(top: Table, folder: Path) -> Transform:
    table = top.table("transform", 'write sql = "..." below [transform]')
    if table is None:
        return None

    def function(key: str) -> Callable[..., Any] | None:
        named = table.text(key)
        if named is None:
            return None
        try:
            return transforms.load(named, folder)
        except transforms.TransformError as error:
            table.mistake(str(error), key)
            return None

    found: Transform = table.either(
        {"sql": table.text, "sql-file": table.contents, "python": function}, called="", required=True
    )
    table.close()
    return found


def _given(**values: Any) -> dict[str, Any]:
    """Those that are there: the others have defaults of their own."""
    return {name: value for name, value in values.items() if value is not None}


def _beside(checkpoint: str, folder: Path) -> str:
    return str(folder / checkpoint) if checkpoint.strip() and _is_local(checkpoint) else checkpoint


def _is_local(path: str) -> bool:
    """Whether it is a path, and not a URL such as s3a://bucket/folder."""
    return _SCHEME.match(path) is None
