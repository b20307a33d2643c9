"""Imports point downwards only; proven on snippets, then kept on the tree."""

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from tests.architecture.layers import (
    MAY_IMPORT,
    eager_plugin_imports,
    imports_of_upper_rooms,
    undeclared_packages,
    upward_imports,
)
from tests.architecture.source import SRC, Source, read_tree, real_tree, report


def test_the_tree_imports_downwards_only() -> None:
    sources = [*real_tree(), *read_tree(SRC, (".pyx", ".pxd"))]
    assert report(upward_imports(sources)) == ""


def test_the_tree_has_no_package_outside_the_layers() -> None:
    assert report(undeclared_packages(SRC)) == ""


def test_the_spark_plugin_imports_ottla_lazily() -> None:
    assert report(eager_plugin_imports(real_tree())) == ""


def test_no_room_of_the_broker_imports_one_above_it() -> None:
    assert report(imports_of_upper_rooms(real_tree())) == ""


@pytest.mark.parametrize(
    ("path", "code", "line"),
    [
        ("ottla/broker/handlers/acls.py", "import os\nfrom ottla.broker.cluster.node import Node", 2),
        ("ottla/broker/replication/partition.py", "import ottla.broker.cluster.node", 1),
        ("ottla/broker/replication/partition.py", "from ottla.broker import controller", 1),
        ("ottla/broker/server/call.py", "from ..handlers.context import NodeContext", 1),
        ("ottla/broker/controller/state.py", "def f():\n    from ottla.broker.handlers import acls", 2),
    ],
)
def test_an_import_of_a_room_above_is_reported(path: str, code: str, line: int) -> None:
    told = report(imports_of_upper_rooms([Source(path, code)]))
    assert told.startswith(f"src/{path}:{line}: broker/")
    assert "which lies above it" in told


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("ottla/broker/cluster/node.py", "from ottla.broker.handlers.context import NodeContext"),
        ("ottla/broker/cluster/node.py", "from ottla.broker.cluster.seeding import Seed"),
        ("ottla/broker/controller/state.py", "from ottla.broker.controller import brokers"),
        ("ottla/broker/__init__.py", "from ottla.broker.cluster.blocking import Cluster"),
        ("ottla/spark/x.py", "from ottla.broker.cluster.blocking import Cluster"),
    ],
)
def test_imports_of_rooms_below_and_from_outside_pass(path: str, code: str) -> None:
    assert report(imports_of_upper_rooms([Source(path, code)])) == ""


def test_the_layers_form_no_cycle() -> None:
    """Else "downwards" would mean nothing: in some order each layer imports only those before it."""
    placed: set[str] = set()
    while len(placed) < len(MAY_IMPORT):
        ready = {layer for layer, below in MAY_IMPORT.items() if below <= placed} - placed
        assert ready, f"these import each other in a circle: {sorted(MAY_IMPORT.keys() - placed)}"
        placed |= ready


UPWARD = [
    ("ottla/client/produce/sink.py", "from ottla.broker import node", 1, "neither knows the other"),
    ("ottla/broker/cluster/node.py", "import ottla.client.produce.sink", 1, "neither knows the other"),
    ("ottla/broker/cluster/node.py", "import os, ottla.client as c", 1, "neither knows the other"),
    ("ottla/wire/frames.py", "from ottla.net.connection import Connection", 1, "wire must not import net"),
    ("ottla/wire/frames.py", "from ottla.runtime import Runtime", 1, "wire must not import runtime"),
    ("ottla/wire/frames.py", "from ottla import net", 1, "wire must not import net"),
    ("ottla/wire/frames.py", "from ottla import errors, client", 1, "wire must not import client"),
    ("ottla/wire/frames.py", "from .. import client", 1, "wire must not import client"),
    ("ottla/wire/frames.py", "from ..client import sink", 1, "wire must not import client"),
    ("ottla/client/group/member.py", "from ...broker.node import Node", 1, "neither knows the other"),
    ("ottla/client/group/__init__.py", "from ...broker.node import Node", 1, "neither knows the other"),
    ("ottla/net/tls.py", "def f():\n    from ottla.client import x", 2, "net must not import client"),
    (
        "ottla/net/tls.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ottla.sim import clock",
        3,
        "net must not import sim",
    ),
    (
        "ottla/net/tls.py",
        "import importlib\nimportlib.import_module('ottla.client')",
        2,
        "net must not import",
    ),
    ("ottla/spark/sink.py", "from ottla.sim import clock", 1, "spark must not import sim"),
    ("ottla/sim/clock.py", "from ottla.spark import sink", 1, "sim must not import spark"),
    ("ottla/spark/sink.py", "from ottla.cli import main", 1, "spark must not import cli"),
    ("ottla/spark/sink.py", "from ottla.console import app", 1, "spark must not import console"),
    ("ottla/cli/main.py", "from ottla.console import app", 1, "cli must not import console"),
    ("ottla/serde/avro.py", "from ottla.wire import frames", 1, "serde must not import wire"),
    ("ottla/broker/cluster/node.py", "from ottla.serde import avro", 1, "broker must not import serde"),
    ("ottla/errors.py", "from ottla import config", 1, "errors imports config: it lies at the bottom"),
    ("ottla/errors.py", "from .config import x", 1, "errors imports config: it lies at the bottom"),
    ("ottla/config.py", "from ottla.hooks import Hook", 1, "config must not import hooks"),
    ("ottla/hooks.py", "from ottla.wire import frames", 1, "hooks must not import wire"),
    (
        "ottla/client/produce/sink.py",
        "from ottla import KafkaError",
        1,
        "import the name from where it is defined",
    ),
    ("ottla/client/produce/sink.py", "import ottla", 1, "import the name from where it is defined"),
    ("ottla/cli/main.py", "from ottla import Client", 1, "import the name from where it is defined"),
    (
        "ottla/client/produce/sink.py",
        "from ottla.utils import x",
        1,
        "ottla.utils, which is in no layer: place it",
    ),
    (
        "ottla/_native/core.pyx",
        "cdef int x\nfrom ottla.wire import frames\n",
        2,
        "_native must not import wire",
    ),
    ("ottla/_native/core.pyx", "from ottla.wire cimport (\n  a,\n  b)\n", 1, "_native must not import wire"),
    ("ottla/_native/core.pxd", "cimport ottla.net.buffers", 1, "_native must not import net"),
]


@pytest.mark.parametrize(("path", "code", "line", "advice"), UPWARD)
def test_an_upward_import_is_reported(path: str, code: str, line: int, advice: str) -> None:
    told = report(upward_imports([Source(path, code)]))
    assert told.startswith(f"src/{path}:{line}: ")
    assert advice in told
    assert "\n" not in told


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("ottla/__init__.py", "from ottla.cli import a\nfrom ottla.client import b\nfrom .errors import c"),
        ("ottla/__main__.py", "import ottla\nfrom ottla.cli.main import main"),
        ("ottla/cli/main.py", "from ottla import sim\nfrom ottla.spark import sink"),
        ("ottla/sim/run.py", "from ottla.client import a\nfrom ottla.broker import b\nfrom . import clock"),
        ("ottla/spark/sink.py", "from ottla.client import a\nfrom ottla.serde import b"),
        ("ottla/client/produce/sink.py", "from ottla.net import a\nfrom ottla import errors, hooks, runtime"),
        ("ottla/client/group/member.py", "from .. import sink\nfrom ..sink import Sink\nfrom . import x"),
        (
            "ottla/wire/__init__.py",
            "from . import frames\nfrom .frames import x\nfrom ottla._native import core",
        ),
        ("ottla/_native/__init__.py", "from ottla._native.core import crc32c\nfrom .. import errors"),
        ("ottla/errors.py", "import enum\nfrom dataclasses import dataclass"),
        ("ottla/net/tls.py", "import ottla_tools\nfrom ottlax.client import y\nx = 'import ottla.client'"),
        ("ottla/_native/core.pyx", "from libc.stdint cimport uint8_t\n'''\nimport of ottla.net\n'''\n"),
    ],
)
def test_a_downward_import_passes(path: str, code: str) -> None:
    assert report(upward_imports([Source(path, code)])) == ""


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("import ottla", 1),
        ("import ottla.spark.source", 1),
        ("from ottla.spark import source", 1),
        ("try:\n    from ottla import spark\nexcept ImportError:\n    spark = None", 2),
        ("class Source:\n    from ottla.spark import source", 2),
        ("import importlib\nx = importlib.import_module('ottla.spark')", 2),
    ],
)
def test_a_spark_plugin_that_loads_ottla_at_once_is_reported(code: str, line: int) -> None:
    told = report(eager_plugin_imports([Source("pyspark_ottla/__init__.py", code)]))
    assert told.startswith(f"src/pyspark_ottla/__init__.py:{line}: ")
    assert "import it in the function that uses it" in told


def test_a_spark_plugin_that_loads_ottla_in_a_function_passes() -> None:
    code = dedent("""
        from pyspark.sql.datasource import DataSource

        class Ottla(DataSource):
            def reader(self, schema):
                from ottla.spark.source import Reader
                return Reader(schema)
    """)
    assert report(eager_plugin_imports([Source("pyspark_ottla/__init__.py", code)])) == ""


@pytest.fixture
def tree(tmp_path: Path) -> Callable[[str], Path]:
    """Makes a small src with the given files, empty, beside a declared ottla/wire."""

    def build(*files: str) -> Path:
        for name in ("ottla/__init__.py", "ottla/wire/__init__.py", *files):
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
        return tmp_path

    return build


@pytest.mark.parametrize(
    ("file", "reported"),
    [
        ("ottla/utils.py", "src/ottla/utils.py:1: utils is in no layer: place it"),
        ("ottla/fast.pyx", "src/ottla/fast.pyx:1: fast is in no layer: place it"),
        ("ottla/extra/deep/thing.py", "src/ottla/extra:1: extra is in no layer: place it"),
        (
            "otherpackage/__init__.py",
            "src/otherpackage:1: otherpackage is a top-level package nobody declared",
        ),
    ],
)
def test_a_package_in_no_layer_is_reported(tree: Callable[[str], Path], file: str, reported: str) -> None:
    assert reported in report(undeclared_packages(tree(file)))


@pytest.mark.parametrize(
    "file",
    [
        "ottla/py.typed",
        "ottla/__main__.py",
        "ottla/errors.py",
        "ottla/__pycache__/utils.cpython-311.pyc",
        "ottla.egg-info/PKG-INFO",
        "pyspark_ottla/__init__.py",
    ],
)
def test_what_needs_no_layer_is_not_asked_for_one(tree: Callable[[str], Path], file: str) -> None:
    assert report(undeclared_packages(tree(file))) == ""
