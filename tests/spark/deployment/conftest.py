"""What the tests of deployments share: a topic with orders, and a Python without Ottla."""

from __future__ import annotations

import venv
from pathlib import Path

import pyarrow
import pytest

from ottla.broker import Cluster

ORDERS = [b"order %04d" % number for number in range(1_000)]


@pytest.fixture(autouse=True)
def _needs_java(java: None) -> None:
    """All of these start Spark in programs of their own."""


@pytest.fixture
def orders(kafka: Cluster) -> Cluster:
    """A cluster with a topic of two partitions to read, and others to write to."""
    kafka.create_topic("orders", partitions=2)
    for partition in range(2):
        kafka.seed("orders", ORDERS[partition::2], partition=partition)
    for topic in ("copied", "streamed", "replaced", "piped", "counted", "remote"):
        kafka.create_topic(topic, partitions=2)
    return kafka


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python as a cluster may have it: with what Spark itself needs for Arrow, and no Ottla."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    installed = Path(pyarrow.__file__).parents[1]
    for entry in installed.glob("pyarrow*"):
        (packages / entry.name).symlink_to(entry)
    return folder / "bin" / "python3"
