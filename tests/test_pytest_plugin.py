"""The pytest plugin, as a project that only installs the package would use it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROJECT = """
import pytest

@pytest.mark.kafka_cluster(brokers=3, topics={"orders": 6})
class TestMarked:
    def test_has_what_the_marker_says(self, kafka):
        assert len(kafka.bootstrap.split(",")) == 3
        kafka.seed("orders", [b"1"], partition=5)

    @pytest.mark.kafka_cluster(brokers=1)
    def test_has_a_cluster_of_its_own(self, kafka):
        assert len(kafka.bootstrap.split(",")) == 1
        assert kafka.dump("orders") == []

def test_plain(kafka):
    kafka.create_topic("payments")

@pytest.fixture(scope="session")
def kafka_session_options():
    return {"topics": ["shared"]}

@pytest.mark.parametrize("number", range(4))
def test_shared(kafka_session, number):
    kafka_session.seed("shared", [b"%d" % number])
    assert b"%d" % number in [record.value for record in kafka_session.dump("shared")]
"""


def pytest_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def test_the_fixtures_are_there_without_any_configuration(tmp_path: Path) -> None:
    (tmp_path / "test_project.py").write_text(PROJECT)
    done = pytest_in(tmp_path, "-W", "error", "--strict-markers")
    assert "7 passed" in done.stdout, done.stdout + done.stderr


def test_workers_of_xdist_do_not_meet(tmp_path: Path) -> None:
    (tmp_path / "test_project.py").write_text(PROJECT)
    done = pytest_in(tmp_path, "-n", "2")
    assert "7 passed" in done.stdout, done.stdout + done.stderr


def test_a_marker_with_positions_says_what_it_wants(tmp_path: Path) -> None:
    (tmp_path / "test_project.py").write_text(
        "import pytest\n@pytest.mark.kafka_cluster(3)\ndef test_it(kafka): pass\n"
    )
    done = pytest_in(tmp_path)
    assert "takes keywords only, as in kafka_cluster(brokers=3)" in done.stdout


def test_a_run_that_does_not_use_it_does_not_pay_for_it(tmp_path: Path) -> None:
    (tmp_path / "test_project.py").write_text(
        "import sys\ndef test_it(): assert 'ottla.broker' not in sys.modules\n"
    )
    done = pytest_in(tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
