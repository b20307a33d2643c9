"""register(spark): `format("ottla")` where Spark does not find it by itself.

Spark looks for data sources once, in the Python of PYSPARK_DRIVER_PYTHON, else PYSPARK_PYTHON, else `python3` of the
PATH. A notebook (PYSPARK_DRIVER_PYTHON=jupyter) or a virtual environment off the PATH is not looked into, and all
that Spark says then is DATA_SOURCE_NOT_FOUND. A source that is registered runs in the Python of PYSPARK_PYTHON
and, where that one lacks Ottla, can say so itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from pyspark.errors import AnalysisException

from ottla.spark.datasource import OttlaDataSource
from ottla.spark.shipping import ShippedClass

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    AnySession: TypeAlias = SparkSession | ConnectSession

_FOUND_ALREADY: Final = "DATA_SOURCE_ALREADY_EXISTS"


def register(spark: AnySession) -> None:
    """Makes `format("ottla")` known to this session, also when Spark's own discovery has not found it.

    >>> ottla.spark.register(spark)
    >>> spark.read.format("ottla").options(...)

    Harmless where it was found, and when called twice. Works through Spark Connect with the package on the server.
    """
    try:
        spark.dataSource.register(ShippedClass(OttlaDataSource))  # type: ignore[arg-type]
    except AnalysisException as error:
        if error.getCondition() != _FOUND_ALREADY:
            raise
