"""Where Spark finds the data source "ottla" by itself: it imports every top-level module that is named pyspark_*.

It does so in every session, whether or not a job reads from Kafka, and an error here would take away the data sources
of all other packages. So nothing is imported before Spark looks at `DefaultSource`, and looking never fails: if ottla
cannot be imported, only a job that says format("ottla") gets to know, and reads why.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name != "DefaultSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        # The source imports its options when a query is planned; half an installation is to be found out here.
        import ottla.spark.options.client
        import ottla.spark.options.connector  # noqa: F401
        from ottla.spark.datasource import OttlaDataSource
    except Exception as error:  # noqa: BLE001  whatever it is, it must not end the discovery of other sources
        return _unusable(error)
    return OttlaDataSource


def _unusable(error: Exception) -> Any:
    """A source that says why there is none; nothing at all in a Python without pyspark."""
    try:
        from pyspark.sql.datasource import DataSource
    except ImportError:
        raise AttributeError(f"module {__name__!r} has no DefaultSource without pyspark") from None
    reason = f"{type(error).__name__}: {error}"

    class DefaultSource(DataSource):
        """Found under its name, and refuses to be made."""

        def __init__(self, options: dict[str, str]) -> None:
            super().__init__(options)
            raise ImportError(
                'the data source "ottla" is installed but cannot be imported in the Python that Spark uses '
                f"({reason}); pip install 'ottla[spark]' there, or set PYSPARK_PYTHON to one that has it"
            )

        @classmethod
        def name(cls) -> str:
            return "ottla"

    return DefaultSource
