"""Clock, randomness, network and threads come from the Runtime; proven on snippets, then kept on the tree."""

import pytest

from tests.architecture.determinism import ALLOWED, outside_the_runtime, stale_allowances
from tests.architecture.source import Source, real_tree, report


def test_the_tree_takes_every_surprise_from_the_runtime() -> None:
    assert report(outside_the_runtime(real_tree())) == ""


def test_no_exception_has_outlived_its_use() -> None:
    assert report(stale_allowances(real_tree())) == ""


def test_every_exception_gives_its_reason() -> None:
    assert all(reason.strip() for entry in ALLOWED.values() for reason in entry.values())


CLOCK = "take the time from the Runtime"
RANDOM = "take randomness, ids and nonces from the Runtime"
NETWORK = "connect and listen through the Runtime"
THREADS = "hand long work to the Runtime's executor"

SURPRISES = [
    ("client/produce/sink.py", "import time", 1, CLOCK),
    ("client/produce/sink.py", "import os, time as clock", 1, CLOCK),
    ("client/produce/sink.py", "from time import monotonic", 1, CLOCK),
    ("client/produce/sink.py", "def f():\n    import time", 2, CLOCK),
    ("client/produce/sink.py", "clock = __import__('time')", 1, CLOCK),
    ("config.py", "import time", 1, CLOCK),
    ("client/produce/sink.py", "import datetime\nx = datetime.datetime.now()", 2, CLOCK),
    ("client/produce/sink.py", "from datetime import datetime\nx = datetime.utcnow()", 2, CLOCK),
    ("client/produce/sink.py", "from datetime import date as d\nx = d.today()", 2, CLOCK),
    ("client/produce/sink.py", "from datetime import datetime\nf(default_factory=datetime.now)", 2, CLOCK),
    ("broker/cluster/node.py", "import random", 1, RANDOM),
    ("broker/cluster/node.py", "from random import Random", 1, RANDOM),
    ("broker/cluster/node.py", "import uuid", 1, RANDOM),
    ("broker/cluster/node.py", "from uuid import UUID, uuid4", 1, RANDOM),
    ("broker/cluster/node.py", "from random import choice, shuffle", 1, RANDOM),
    ("net/sasl.py", "import secrets", 1, RANDOM),
    ("net/sasl.py", "import os\nnonce = os.urandom(16)", 2, RANDOM),
    ("net/sasl.py", "from os import urandom", 1, RANDOM),
    ("net/connection.py", "import socket", 1, NETWORK),
    ("net/connection.py", "import select", 1, NETWORK),
    ("net/connection.py", "import selectors", 1, NETWORK),
    ("net/connection.py", "import asyncio\nasync def f(): await asyncio.open_connection('a', 1)", 2, NETWORK),
    ("net/connection.py", "async def f(loop): await loop.create_connection(P, 'a', 1)", 1, NETWORK),
    ("serde/avro.py", "import threading", 1, THREADS),
    ("serde/avro.py", "import concurrent.futures; x = concurrent.futures.Future()", 1, THREADS),
    ("serde/avro.py", "from concurrent import futures", 1, THREADS),
    ("serde/avro.py", "from concurrent.futures import ThreadPoolExecutor", 1, THREADS),
    ("client/produce/sink.py", "import asyncio\nasync def f(): await asyncio.to_thread(g)", 2, THREADS),
    ("broker/cluster/cluster.py", "import subprocess", 1, "a library starts no processes"),
    ("broker/cluster/cluster.py", "from multiprocessing import Process", 1, "a library starts no processes"),
    ("sim/run.py", "import random", 1, RANDOM),
    (
        "client/produce/sink.py",
        "import asyncio\nasync def f(t): await asyncio.wait(t)",
        2,
        "use asyncio.gather",
    ),
    ("client/produce/sink.py", "from asyncio import as_completed", 1, "use asyncio.gather"),
    (
        "client/produce/sink.py",
        "import asyncio\nasync def f(): g = asyncio.TaskGroup()",
        2,
        "use asyncio.gather",
    ),
    ("client/produce/sink.py", "from asyncio import TaskGroup", 1, "use asyncio.gather"),
    (
        "client/produce/sink.py",
        "import asyncio\nx = asyncio.get_event_loop()",
        2,
        "use asyncio.get_running_loop",
    ),
    ("client/partitioners.py", "x = hash(key) % 12", 1, "use murmur2"),
    ("broker/cluster/node.py", "x = sorted(nodes, key=id)", 1, "order by a field"),
    ("broker/cluster/node.py", "nodes.sort(key=lambda n: (n.rack, id(n)))", 1, "order by a field"),
    ("broker/cluster/node.py", "x = min(nodes, key=hash)", 1, "order by a field"),
    ("wire/frames.py", "import asyncio", 1, "sans-io"),
    ("wire/frames.py", "from asyncio import sleep", 1, "sans-io"),
    ("wire/frames.py", "import ssl", 1, "sans-io"),
    ("wire/frames.py", "import time", 1, CLOCK),
    ("wire/frames.py", "with open('x') as f: pass", 1, "sans-io"),
    ("wire/frames.py", "from pathlib import Path", 1, "sans-io"),
    ("wire/frames.py", "from importlib import resources", 1, "sans-io"),
    ("wire/frames.py", "import gzip\nx = gzip.open(p)", 2, "sans-io"),
    ("_native/__init__.py", "import socket", 1, NETWORK),
]


@pytest.mark.parametrize(("inside", "code", "line", "advice"), SURPRISES)
def test_a_surprise_that_is_not_the_runtimes_is_reported(
    inside: str, code: str, line: int, advice: str
) -> None:
    told = report(outside_the_runtime([Source(f"ottla/{inside}", code)]))
    assert told.startswith(f"src/ottla/{inside}:{line}: ")
    assert advice in told
    assert "\n" not in told


@pytest.mark.parametrize(
    ("inside", "code"),
    [
        ("client/produce/sink.py", "import asyncio\nasync def f(): await asyncio.sleep(1)"),
        ("client/produce/sink.py", "import asyncio\nnow = asyncio.get_running_loop().time()"),
        (
            "client/produce/sink.py",
            "import asyncio\nasync def f(t): await asyncio.wait_for(asyncio.gather(*t), 1)",
        ),
        ("client/produce/sink.py", "def f(runtime): return runtime.time() + runtime.random()"),
        ("client/produce/sink.py", "def f(time): return time.time()"),
        ("client/produce/sink.py", "from ottla.client import random\nfrom . import time"),
        ("client/produce/sink.py", "from datetime import UTC, datetime\nx = datetime.fromtimestamp(0, UTC)"),
        ("client/produce/sink.py", "def f(self): return self.datetime.now()"),
        ("client/produce/sink.py", "import os\npid = os.getpid()"),
        ("client/produce/sink.py", "class P:\n    def __hash__(self): return hash((self.a, self.b))"),
        ("client/produce/sink.py", "from ottla._native.core import murmur2 as hash\nx = hash(b'')"),
        ("client/produce/sink.py", "seen = {id(x): x}\ny = sorted(seen.values(), key=lambda x: x.id)"),
        ("wire/primitives.py", "from uuid import UUID\nx = UUID(int=1)"),
        ("wire/primitives.py", "def f(reader): return reader.open() + reader.read_bytes()"),
        ("net/tls.py", "import ssl\nfrom pathlib import Path\nx = open('ca.pem')"),
        ("broker/log/fs.py", "import os\nf = os.open('x', 0)"),
        ("cli/main.py", "import time, random, threading, subprocess"),
        ("spark/sink.py", "import time, uuid"),
        ("runtime.py", "import time, random, socket, threading"),
        ("client/blocking/driver.py", "import threading"),
        ("wire/schema.py", "from importlib import resources"),
        ("wire/schema.py", "from pathlib import Path"),
    ],
)
def test_a_look_alike_passes(inside: str, code: str) -> None:
    assert report(outside_the_runtime([Source(f"ottla/{inside}", code)])) == ""


def test_an_exception_covers_only_what_it_names() -> None:
    told = report(
        outside_the_runtime([Source("ottla/client/blocking/driver.py", "import threading\nimport time")])
    )
    assert told == "src/ottla/client/blocking/driver.py:2: client uses time: take the time from the Runtime"


@pytest.mark.parametrize("inside", sorted(ALLOWED))
def test_an_exception_no_longer_needed_is_reported(inside: str) -> None:
    told = report(stale_allowances([Source(f"ottla/{inside}", "import json")]))
    assert told.startswith(f"src/ottla/{inside}:1: is allowed ")
    assert "delete the entry" in told


def test_an_exception_waits_for_a_file_that_does_not_exist_yet() -> None:
    assert report(stale_allowances([Source("ottla/client/produce/sink.py", "import json")])) == ""
