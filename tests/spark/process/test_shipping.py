"""What Spark ships arrives whole, or says why it cannot be used where it arrived."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyspark
import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource

from ottla import _version
from ottla.spark.datasource import OttlaDataSource
from ottla.spark.process.shipping import Shipped, ShippedClass
from ottla.spark.sink.writers import KafkaBatchWriter, KafkaStreamWriter
from ottla.spark.source.batch_reader import KafkaBatchReader
from ottla.spark.source.stream_reader import KafkaStreamReader


class Crate(Shipped):
    def __init__(self, contents: str) -> None:
        self.contents = contents
        self.connection = object()

    def __getstate__(self) -> dict[str, object]:
        return {"contents": self.contents}


class Source(DataSource):
    pass


def advice(error: pytest.ExceptionInfo[ImportError]) -> str:
    """Each of these errors ends with what to do."""
    text = str(error.value)
    for cure in ("PYSPARK_PYTHON", "spark.pyspark.python", "spark.archives", "pip install 'ottla[spark]=="):
        assert cure in text
    return text


@pytest.mark.parametrize(
    "kind", [OttlaDataSource, KafkaBatchReader, KafkaStreamReader, KafkaBatchWriter, KafkaStreamWriter]
)
def test_everything_that_travels_is_shipped(kind: type) -> None:
    assert issubclass(kind, Shipped)


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps], ids=["pickle", "cloudpickle"])
def test_the_state_that_is_to_travel_arrives(dumps: Callable[[object], bytes]) -> None:
    arrived = pickle.loads(dumps(Crate("apples")))
    assert type(arrived) is Crate
    assert vars(arrived) == {"contents": "apples"}


def test_what_arrived_can_be_sent_on() -> None:
    once = pickle.loads(pickle.dumps(Crate("apples")))
    assert vars(pickle.loads(pickle.dumps(once))) == {"contents": "apples"}


def test_a_class_of_a_notebook_travels_by_value() -> None:
    class Local(Crate):
        pass

    assert pickle.loads(pickle.dumps(Local("pears"))).contents == "pears"


def test_a_class_that_is_registered_arrives_as_the_class() -> None:
    assert pickle.loads(pickle.dumps(ShippedClass(Source))) is Source


def test_a_class_that_is_registered_has_its_own_name() -> None:
    assert ShippedClass(OttlaDataSource).name() == "ottla"


def test_a_worker_with_another_version_names_both(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = _version.__version__
    sent = pickle.dumps(Crate("apples"))
    monkeypatch.setattr(_version, "__version__", "99.0")
    with pytest.raises(ImportError) as error:
        pickle.loads(sent)
    text = advice(error)
    assert "has ottla 99.0 at " in text
    assert f"but the driver has {ours}" in text


def test_a_worker_that_cannot_load_the_connector_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent = pickle.dumps(Crate("apples"))
    monkeypatch.setitem(sys.modules, Crate.__module__, None)
    with pytest.raises(ImportError) as error:
        pickle.loads(sent)
    assert f"cannot load ottla's connector: import of {Crate.__module__} halted" in advice(error)


@pytest.mark.parametrize("sent", [Crate("apples"), ShippedClass(Source)], ids=["object", "class"])
def test_a_worker_without_ottla_says_which_python_it_is(tmp_path: Path, sent: object) -> None:
    """In a Python that really lacks it: nothing but PySpark can be imported there."""
    packages = Path(pyspark.__file__).parents[1]
    for name in ("pyspark", "py4j"):
        (tmp_path / name).symlink_to(packages / name)
    program = f"import sys, pickle; sys.path.insert(0, {str(tmp_path)!r}); pickle.load(sys.stdin.buffer)"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program],
        input=pickle.dumps(sent),
        capture_output=True,
        check=False,
    )
    last = done.stderr.decode().splitlines()[-1]
    assert last.startswith(f"ImportError: the Python of a Spark worker, {sys.executable} (3.")
    assert "cannot import ottla: No module named 'ottla'. Every Python that Spark starts needs ottla" in last
    assert "PYSPARK_PYTHON" in last
