"""The transform of a pipeline: SQL text, or a Python function from DataFrames to a DataFrame.

Views in SQL and parameters of a function are called as the sources; a parameter `spark` gets the session. A function
is given in a program, or named in a file: "revenue.py:enrich", "package.module:enrich".

Invariant: what is loaded and checked here can be applied, as far as that can be known without a session. Analysing
SQL takes one.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from ottla.spark.options.parsing import OptionError
from ottla.spark.pipeline.mistakes import Mistake
from ottla.spark.pipeline.texts import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.spark.pipeline.model import Pipeline, TopicSource, Transform

_SESSION: Final = "spark"
_WHERE: Final = ("transform",)
_COMMENT: Final = re.compile(r"--[^\n]*|/\*.*?\*/|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")", re.DOTALL)
_NAMED: Final = re.compile(r"(?P<module>.+?):(?P<function>[A-Za-z_]\w*)")


class TransformError(OptionError):
    """A function that cannot be loaded from where it is said to be."""


def apply(pipeline: Pipeline, spark: SparkSession, frames: Mapping[str, DataFrame]) -> DataFrame:
    """The transform's rows; `frames` are the sources, by name.

    For SQL they become temporary views of the session, in place of older ones of the same names.
    """
    transform = pipeline.transform
    if transform is None:
        (frame,) = frames.values()
        return frame
    if isinstance(transform, str):
        for name, frame in frames.items():
            frame.createOrReplaceTempView(name)
        return spark.sql(transform)
    wanted = _parameters(transform)
    given: dict[str, object] = {
        name: frame for name, frame in frames.items() if wanted is None or name in wanted
    }
    if wanted is not None and _SESSION in wanted:
        given[_SESSION] = spark
    return _frame(_called(transform, given), described(transform))


def _called(transform: Callable[..., Any], given: Mapping[str, object]) -> object:
    """Spark's errors say what is wrong with a DataFrame; of others, the line is half of what they say."""
    from pyspark.errors import PySparkException

    try:
        return transform(**given)
    except (PySparkException, OptionError):
        raise
    except Exception as error:  # what a user's own code may raise has no other name
        code = getattr(transform, "__code__", None)
        said = _said(error, None if code is None else Path(code.co_filename))
        raise TransformError(f"the transform {described(transform)} has failed: {said}") from error


def _frame(result: object, name: str) -> DataFrame:
    from pyspark.sql import DataFrame

    if not isinstance(result, DataFrame):
        raise TransformError(
            f"the transform {name} has returned {type(result).__name__}; it must return a DataFrame"
        )
    return result


# What may be wrong


def mistakes(transform: Transform, sources: Mapping[str, TopicSource]) -> Iterator[Mistake]:
    """All that can be said without a session."""
    if transform is None:
        if len(sources) > 1:
            yield Mistake(
                _WHERE, f"it is missing; say what becomes of {', '.join(sources)}, in SQL or in Python"
            )
    elif isinstance(transform, str):
        yield from _of_sql(transform, sources)
    else:
        yield from _of_function(transform, sources)


def _of_sql(text: str, sources: Mapping[str, TopicSource]) -> Iterator[Mistake]:
    # Without comments: a view that only they mention is not read. Literals stay, as in IDENTIFIER('orders').
    bare = _COMMENT.sub(lambda found: found[1] or " ", text)
    if not bare.strip():
        yield Mistake(_WHERE, "it is empty; write a SELECT over the views " + ", ".join(sources))
        return
    words = {word.lower() for word in re.findall(r"\w+", bare)}
    unused = [name for name in sources if name.lower() not in words]
    if unused and len(unused) == len(sources):
        yield Mistake(_WHERE, f"it reads none of the sources; select from the views {', '.join(sources)}")
    else:
        for name in unused:
            yield Mistake(_WHERE, f"it does not read the source {name}; use it, or leave the source out")


def _of_function(function: Callable[..., Any], sources: Mapping[str, TopicSource]) -> Iterator[Mistake]:
    name = described(function)
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        yield Mistake(_WHERE, f"{name} does not say what its parameters are; give a function of Python")
        return
    if inspect.iscoroutinefunction(function):
        yield Mistake(_WHERE, f"{name} is asynchronous; write it with def, as it only builds a DataFrame")
    for parameter in parameters.values():
        if parameter.kind is parameter.POSITIONAL_ONLY:
            yield Mistake(
                _WHERE, f"the parameter {parameter.name} of {name} has no name to callers; leave '/' out"
            )
        elif parameter.name not in sources and _is_wanted(parameter):
            advice = did_you_mean(parameter.name, sources) or f" there are {', '.join([*sources, _SESSION])}"
            yield Mistake(_WHERE, f"{name} has the parameter {parameter.name}, which is no source;{advice}")
    wanted = _parameters(function)
    for source in sources:
        if wanted is not None and source not in wanted:
            yield Mistake(_WHERE, f"{name} has no parameter {source}; add it, or leave that source out")


def _is_wanted(parameter: inspect.Parameter) -> bool:
    """Whether a call without it fails."""
    named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    return named and parameter.default is parameter.empty and parameter.name != _SESSION


def _parameters(function: Callable[..., Any]) -> frozenset[str] | None:
    """The names that it can be called with; None: any."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return frozenset(parameter.name for parameter in parameters)


def described(function: Callable[..., Any]) -> str:
    """For messages.

    >>> described(described)
    'described'
    """
    return getattr(function, "__name__", type(function).__name__)


# Functions that a file names


def load(named: str, folder: Path) -> Callable[..., Any]:
    """The function of "file.py:function", relative to `folder`, or of "package.module:function".

    Modules beside the pipeline's file can be imported. Raises TransformError, which names the line of the user's own
    code if that is where it fails.
    """
    match = _NAMED.fullmatch(named.strip())
    if match is None:
        raise TransformError(
            f"{named!r} names no function; write it as revenue.py:enrich, or package.module:enrich"
        )
    if str(folder) not in sys.path:
        # Behind all others: a file beside a pipeline is not to hide an installed package.
        sys.path.append(str(folder))
    file = match["module"].endswith(".py")
    module = _of_file(folder / match["module"]) if file else _of_package(match["module"])
    return _function_of(module, match["function"], match["module"])


def _of_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise TransformError(f"there is no file {path}; paths are relative to the pipeline's file")
    # A name of its own: a file called json.py is not to become the module json.
    name = f"ottla_transform_{path.stem}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # what a user's own code may raise has no other name
        del sys.modules[name]
        raise TransformError(f"{path.name} cannot be imported: {_said(error, path)}") from error
    _send_by_value(module)
    return module


def _send_by_value(module: ModuleType) -> None:
    """Functions of the file that run on executors, as in a udf, are sent with their code: they have no such file."""
    from pyspark.cloudpickle import register_pickle_by_value

    register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _of_package(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            hint = "" if "/" not in name else ", or write the file with its .py"
            raise TransformError(
                f"there is no module {error.name}; install it, or put it beside the pipeline's file{hint}"
            ) from None
        raise TransformError(f"{name} cannot be imported: {_said(error, None)}") from error
    except Exception as error:  # as above
        raise TransformError(f"{name} cannot be imported: {_said(error, None)}") from error


def _said(error: Exception, path: Path | None) -> str:
    """The error with the line of user code that it comes from."""
    text = f"{type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if path is not None and frame.filename == str(path)]
    return f"{text} ({Path(inside[-1].filename).name}:{inside[-1].lineno})" if inside else text


def _function_of(module: ModuleType, name: str, shown: str) -> Callable[..., Any]:
    found: object = getattr(module, name, None)
    if callable(found):
        return found
    functions = [
        each for each, value in vars(module).items() if inspect.isfunction(value) and not each.startswith("_")
    ]
    if found is not None:
        raise TransformError(
            f"{name} of {shown} is no function; name one: {', '.join(functions) or 'none is there'}"
        )
    advice = did_you_mean(name, functions) or f" there are {', '.join(functions) or 'none'}"
    raise TransformError(f"{shown} has no function {name};{advice}")
