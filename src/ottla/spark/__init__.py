"""The Spark connector: format("ottla") for spark.read, spark.readStream, df.write and df.writeStream.

The data source finds itself (`pyspark_ottla`), so that most jobs import nothing of this. What they may import is
here, and comes in when it is first used: without pyspark, this module still imports.
"""

from __future__ import annotations

# The name that type checkers take for true: this is imported when tasks start, and `typing` takes longer than it.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from ottla.spark.datasource import OttlaDataSource
    from ottla.spark.option_values import OptionError
    from ottla.spark.registration import register
    from ottla.spark.replace import replace_kafka, restore_kafka

__all__ = ["OptionError", "OttlaDataSource", "register", "replace_kafka", "restore_kafka"]

_PLACES = {
    "OptionError": "ottla.spark.option_values",
    "OttlaDataSource": "ottla.spark.datasource",
    "register": "ottla.spark.registration",
    "replace_kafka": "ottla.spark.replace",
    "restore_kafka": "ottla.spark.replace",
}
_WITHOUT_PYSPARK = frozenset({"OptionError"})


def __getattr__(name: str) -> object:
    from importlib import import_module

    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'ottla.spark' has no attribute {name!r}")
    if name not in _WITHOUT_PYSPARK:
        from ottla._extras import require

        for module in ("pyspark", "pyarrow"):
            require(module, extra="spark", purpose=f"ottla.spark.{name}")
    return getattr(import_module(place), name)


def __dir__() -> list[str]:
    return __all__
