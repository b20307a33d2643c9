"""How readers, writers and the data source itself travel to other Python processes.

Spark pickles them on the driver and unpickles them in workers, whose Python may be another one: without Ottla, or
with another version of it. Pickle's own error for that is a ModuleNotFoundError in the middle of a stack trace, or
an attribute that is not there. Here the pickle carries a small function by value, which looks around in the new
process first and says what to do. What is inside a reader or a writer is its own business.

Invariant: unpickling imports nothing of Ottla before `open_parcel` has looked whether the same Ottla is there.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource

from ottla._version import __version__


class Shipped:
    """A mix-in for what Spark sends to workers: says so when Ottla is missing there, or is of another version.

    The state that travels is what `__getstate__` returns: the instance's dictionary, or what is sent instead of it.
    """

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[bytes]]:
        contents = _pickled((type(self), self.__getstate__()))
        # Wrapped once more, so that the outer pickle names nothing but pickle.loads and any pickler can write it.
        return pickle.loads, (_pickled(_Parcel(__version__, contents)),)


class ShippedClass:
    """A class on its way, for `spark.dataSource.register`: it is the class again when it is unpickled.

    A class itself is pickled as a name, which a Python without Ottla does not know and cannot explain.
    """

    def __init__(self, kind: type[DataSource]) -> None:
        self._kind = kind

    def name(self) -> str:
        return self._kind.name()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[bytes]]:
        return pickle.loads, (_pickled(_Parcel(__version__, _pickled((self._kind, None)))),)


class _Parcel:
    """Pickles as a call of `open_parcel`."""

    def __init__(self, version: str, contents: bytes) -> None:
        self._arguments = (version, contents)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, bytes]]:
        return _opener(), self._arguments


def _pickled(value: object) -> bytes:
    """By value where a plain pickle could only name a module: classes of notebooks, functions in functions."""
    done: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return done


def _opener() -> Callable[[str, bytes], object]:
    """A function inside a function is pickled by value: its code travels, and needs no Ottla to be loaded."""

    def open_parcel(version: str, contents: bytes) -> Any:
        import pickle
        import platform
        import sys

        here = f"the Python of a Spark worker, {sys.executable} ({platform.python_version()}, on {platform.node()}),"
        advice = (
            f"Every Python that Spark starts needs ottla {version}, on the driver and on the executors: install it "
            f"there (pip install 'ottla[spark]=={version}'), or let Spark take a Python that has it (set "
            "PYSPARK_PYTHON before Spark starts, or spark.pyspark.python for spark-submit), or send one along with "
            "spark.archives"
        )
        try:
            from ottla import _version
        except ImportError as error:
            raise ImportError(f"{here} cannot import ottla: {error}. {advice}", name=error.name) from None
        if _version.__version__ != version:
            found = f"has ottla {_version.__version__} at {_version.__file__}, but the driver has {version}"
            raise ImportError(f"{here} {found}. {advice}", name="ottla")
        try:
            kind, state = pickle.loads(contents)
        except ImportError as error:
            # Half an installation: the compiled core of another Python, or nothing of the extra.
            raise ImportError(
                f"{here} cannot load ottla's connector: {error}. {advice}", name=error.name
            ) from None
        if state is None:
            return kind
        arrived = kind.__new__(kind)
        arrived.__dict__.update(state)
        return arrived

    return open_parcel
