"""register(spark): `format("ottla")` where Spark does not find it by itself.

Spark looks for data sources once, in the Python of PYSPARK_DRIVER_PYTHON, else PYSPARK_PYTHON, else `python3` of the
PATH. A notebook (PYSPARK_DRIVER_PYTHON=jupyter) or a virtual environment off the PATH is not looked into, and all
that Spark says then is DATA_SOURCE_NOT_FOUND. A source that is registered runs in the Python of PYSPARK_PYTHON
and, where that one lacks Ottla, can say so itself.

A batch write looks in the session that is active in its thread, and a thread that Python has started has none: the
same error, of all Python sources alike. So `register` also makes the session the active one of its thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyspark.errors import AnalysisException

from ottla.spark.datasource import OttlaDataSource
from ottla.spark.process.shipping import ShippedClass

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    AnySession: TypeAlias = SparkSession | ConnectSession

_FOUND_ALREADY: Final = "DATA_SOURCE_ALREADY_EXISTS"


def register(spark: AnySession) -> None:
    """Makes `format("ottla")` known to this session, also when Spark's own discovery has not found it.

    >>> ottla.spark.register(spark)
    >>> spark.read.format("ottla").options(...)

    Harmless where it was found, and when called twice. Works through Spark Connect with the package on the server. In
    a thread of one's own, call it there before a batch is written.
    """
    make_active(spark)
    try:
        spark.dataSource.register(ShippedClass(OttlaDataSource))  # type: ignore[arg-type]
    except AnalysisException as error:
        if error.getCondition() != _FOUND_ALREADY:
            raise


def make_active(spark: Any) -> None:
    """Lets batch writes of this thread find the sources of the session; on Spark Connect they do anyway."""
    jvm = getattr(spark, "_jvm", None)
    if jvm is not None:
        jvm.SparkSession.setActiveSession(spark._jsparkSession)
