"""The Spark job: orders in, revenue per country and window out, both through format("ottla").

It runs until its standard input ends, takes what is there by then, and ends. On standard output it says a line of
JSON for each micro-batch.

The sink writes at least once, so its output is made to bear repetition: in complete mode every micro-batch writes
every total, under a key of its own, and the last one of a key is right.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from demo.orders import CUSTOMERS, ORDER_COLUMNS, ORDERS, REVENUE, WINDOW_MS

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "ERROR",
    # A local disk needs no renames through Hadoop's FileContext: a tenth of a second less for each micro-batch.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m demo.job", description=__doc__.partition("\n")[0])
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--checkpoint", required=True)
    options = parser.parse_args()
    spark = _session()
    _run(start(spark, options.bootstrap, options.checkpoint))
    spark.stop()


def _session() -> SparkSession:
    builder = SparkSession.builder.master("local[2]").appName("demo")
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def start(spark: SparkSession, bootstrap: str, checkpoint: str) -> StreamingQuery:
    customers = spark.createDataFrame(CUSTOMERS, "customer int, name string, country string")
    orders = (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", ORDERS)
        .option("startingOffsets", "earliest")
        .option("value.format", "json")
        .schema(ORDER_COLUMNS)
        .load()
    )
    return (
        revenue(orders, customers)
        .writeStream.format("ottla")
        .outputMode("complete")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", REVENUE)
        .option("checkpointLocation", checkpoint)
        .start()
    )


def revenue(orders: DataFrame, customers: DataFrame) -> DataFrame:
    """Key and value for each country and window."""
    window = f.window(f.timestamp_millis("at"), f"{WINDOW_MS} milliseconds")
    totals = (
        orders.join(f.broadcast(customers), "customer")
        .groupBy("country", window.alias("window"))
        .agg(f.count("*").alias("orders"), f.sum("cents").alias("cents"))
    )
    row = totals.select("country", f.unix_millis("window.start").alias("start"), "orders", "cents")
    return row.select(
        f.concat_ws(" ", "country", "start").alias("key"),
        f.to_json(f.struct("*")).alias("value"),
    )


def _run(query: StreamingQuery) -> None:
    ended = threading.Event()
    threading.Thread(target=_wait_for_the_end, args=(ended,), daemon=True).start()
    reported = -1
    while not ended.is_set():
        query.awaitTermination(1)  # raises when the query has failed
        reported = _report(query, reported)
    query.processAllAvailable()
    _report(query, reported)
    query.stop()


def _wait_for_the_end(ended: threading.Event) -> None:
    sys.stdin.read()
    ended.set()


def _report(query: StreamingQuery, reported: int) -> int:
    """About the micro-batches since the last time; returns the last one that was reported."""
    for progress in query.recentProgress:
        if progress.batchId > reported and progress.numInputRows:
            reported = progress.batchId
            print(
                json.dumps(
                    {
                        "batch": progress.batchId,
                        "orders": progress.numInputRows,
                        "ms": progress.durationMs["triggerExecution"],
                    }
                ),
                flush=True,
            )
    return reported


if __name__ == "__main__":
    main()
