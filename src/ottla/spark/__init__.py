"""The Spark connector: format("ottla") for spark.read, spark.readStream, df.write and df.writeStream.

The data source finds itself (`pyspark_ottla`), so that most jobs import nothing of this. What they may import is
here, and comes in when it is first used: without pyspark, this module still imports.

| folder | subject |
| --- | --- |
| datasource.py | OttlaDataSource, where Spark begins |
| options/ | what users write as options, parsed and checked on the driver |
| source/ | reading, as batches and as streams |
| sink/ | writing, as batches and as streams |
| values/ | typed columns instead of the bytes of `value` |
| process/ | the processes of a job: registration, pickles, clients |
| pipeline/ | topics in, a transform, topics out, as one object or one file |
"""

from __future__ import annotations

# The name that type checkers take for true: this is imported when tasks start, and `typing` takes longer than it.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from ottla.spark.datasource import OttlaDataSource
    from ottla.spark.options.parsing import OptionError
    from ottla.spark.pipeline.mistakes import PipelineError
    from ottla.spark.pipeline.model import Pipeline, TopicSink, TopicSource, Watermark
    from ottla.spark.process.registration import register
    from ottla.spark.process.replace import replace_kafka, restore_kafka
    from ottla.spark.sink.foreach_batch import Sink
    from ottla.spark.sink.recover import recover

__all__ = [
    "OptionError",
    "OttlaDataSource",
    "Pipeline",
    "PipelineError",
    "Sink",
    "TopicSink",
    "TopicSource",
    "Watermark",
    "recover",
    "register",
    "replace_kafka",
    "restore_kafka",
]

_MODULES = {
    "Sink": "ottla.spark.sink.foreach_batch",
    "OptionError": "ottla.spark.options.parsing",
    "OttlaDataSource": "ottla.spark.datasource",
    "Pipeline": "ottla.spark.pipeline.model",
    "PipelineError": "ottla.spark.pipeline.mistakes",
    "TopicSink": "ottla.spark.pipeline.model",
    "TopicSource": "ottla.spark.pipeline.model",
    "Watermark": "ottla.spark.pipeline.model",
    "recover": "ottla.spark.sink.recover",
    "register": "ottla.spark.process.registration",
    "replace_kafka": "ottla.spark.process.replace",
    "restore_kafka": "ottla.spark.process.replace",
}
_WITHOUT_PYSPARK = frozenset({"OptionError", "PipelineError", "recover"})


def __getattr__(name: str) -> object:
    from importlib import import_module

    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'ottla.spark' has no attribute {name!r}")
    if name not in _WITHOUT_PYSPARK:
        from ottla._extras import require

        for needed in ("pyspark", "pyarrow"):
            require(needed, extra="spark", purpose=f"ottla.spark.{name}")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return __all__
