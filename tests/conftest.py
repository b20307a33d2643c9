"""For all tests: what a busy machine, or a shell in the background, is not to have a say in."""

import gc
import signal

import pytest
from hypothesis import settings

# Property tests have no deadline per example.
settings.register_profile("ottla", deadline=None)
settings.load_profile("ottla")

# A shell has what it runs in the background ignore Ctrl-C: tests of it, and the programs they start, would hang.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Ten thousand collected tests are no garbage: a test that collects walks what came after them only."""
    gc.collect()
    gc.freeze()
