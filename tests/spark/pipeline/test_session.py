"""The settings of a pipeline's session, and what is said where Spark cannot run."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ottla.spark.pipeline.model import Pipeline, TopicSink, TopicSource
from ottla.spark.pipeline.session import LOCAL, NoJavaError, check_java, open_session, session_settings

_CHECKPOINT_FILES = "spark.sql.streaming.checkpointFileManagerClass"


def pipeline(checkpoint: str = "/var/checkpoints", **spark: str) -> Pipeline:
    return Pipeline(
        "copy",
        kafka={"bootstrap.servers": "localhost:9092"},
        sources={"orders": TopicSource(topics=("orders",))},
        sinks={"copies": TopicSink(topic="copies", format="bytes")},
        checkpoint=checkpoint,
        spark={name.replace("_", "."): value for name, value in spark.items()},
    )


def test_without_a_word_it_is_local_and_its_tasks_are_tried_again() -> None:
    settings = session_settings(pipeline(), None)
    assert settings["spark.master"] == LOCAL
    assert LOCAL.endswith(",4]")
    assert settings["spark.app.name"] == "copy"
    assert settings["spark.ui.enabled"] == "false"
    assert settings["spark.sql.shuffle.partitions"] == str(os.cpu_count())
    assert "FileSystemBased" in settings[_CHECKPOINT_FILES]


def test_the_command_beats_the_pipeline_and_the_pipeline_beats_the_defaults() -> None:
    own = pipeline(spark_master="local[3]", spark_ui_enabled="true", spark_app_name="mine")
    settings = session_settings(own, None)
    assert (settings["spark.master"], settings["spark.ui.enabled"]) == ("local[3]", "true")
    assert (settings["spark.app.name"], settings["spark.sql.shuffle.partitions"]) == ("mine", "3")
    assert session_settings(own, "local[2,4]")["spark.master"] == "local[2,4]"


def test_a_cluster_gets_what_the_pipeline_says_and_nothing_of_local_masters() -> None:
    settings = session_settings(pipeline(), "spark://cluster:7077")
    assert settings == {"spark.app.name": "copy", "spark.master": "spark://cluster:7077"}


def test_checkpoints_elsewhere_are_written_as_spark_does_it() -> None:
    assert _CHECKPOINT_FILES not in session_settings(pipeline("s3a://bucket/checkpoints"), None)


def test_a_server_that_is_named_beats_the_master_of_the_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark refuses both together before it connects."""

    def connect(builder: Any) -> Any:
        builder._validate_startup_urls()
        return builder._options

    monkeypatch.delenv("MASTER", raising=False)
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", connect)
    own = pipeline(spark_master="spark://cluster:7077", spark_sql_shuffle_partitions="3")
    settings: Any
    settings, is_own = open_session(own, remote="sc://here:15002")
    assert settings == {"spark.remote": "sc://here:15002", "spark.sql.shuffle.partitions": "3"}
    assert is_own


def test_the_session_of_a_program_is_not_stopped_from_a_thread_that_has_none(spark: SparkSession) -> None:
    with ThreadPoolExecutor(1) as thread:
        session, is_own = thread.submit(open_session, pipeline()).result()
    assert not is_own
    assert session.sparkContext is spark.sparkContext
    assert session.conf.get("spark.app.name") == "ottla tests"


def test_without_java_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoJavaError, match=r"no java is found on the PATH: install Java 17 or newer"):
        check_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(NoJavaError, match=r"JAVA_HOME is .*, where there is no bin/java"):
        check_java()


def test_an_old_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(NoJavaError, match=r"Java 17 or newer, and .*/bin/java is 8"):
        check_java()
