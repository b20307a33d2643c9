"""Library code never prints or swallows an error, and stays short; proven on snippets, kept on the tree."""

import pytest

from tests.architecture.habits import LONG_MODULES, MAX_LINES, long_modules, printing, swallowed_errors
from tests.architecture.source import SRC, Source, read_tree, real_tree, report


def test_the_tree_never_prints() -> None:
    assert report(printing(real_tree())) == ""


def test_the_tree_swallows_no_error() -> None:
    assert report(swallowed_errors(real_tree())) == ""


def test_every_module_of_the_tree_fits_one_sitting() -> None:
    assert report(long_modules([*real_tree(), *read_tree(SRC, (".pyx", ".pxd"))])) == ""


@pytest.mark.parametrize(
    ("code", "line", "name"),
    [
        ("print('hello')", 1, "print()"),
        ("def f():\n    print('x', file=out)", 2, "print()"),
        ("import sys\nsys.stdout.write('x')", 2, "sys.stdout"),
        ("import sys as s\nprint_to = s.stderr", 2, "sys.stderr"),
        ("from sys import stderr", 1, "sys.stderr"),
        ("import traceback\ntraceback.print_exc()", 2, "traceback.print_exc"),
        ("from pprint import pprint", 1, "pprint.pprint"),
    ],
)
@pytest.mark.parametrize(
    "path", ["ottla/client/produce/sink.py", "ottla/errors.py", "pyspark_ottla/__init__.py"]
)
def test_printing_is_reported(path: str, code: str, line: int, name: str) -> None:
    told = report(printing([Source(path, code)]))
    assert told == f"src/{path}:{line}: library code uses {name}: log under `ottla.*` instead"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("ottla/cli/main.py", "print('hello')"),
        ("ottla/console/app.py", "import sys\nsys.stderr.write('x')"),
        ("ottla/__main__.py", "print('hello')"),
        ("ottla/sim/__main__.py", "import sys\nprint('seed', file=sys.stderr)"),
        ("ottla/client/produce/sink.py", "import logging\nlogging.getLogger('ottla.client').info('x')"),
        ("ottla/client/produce/sink.py", "import sys\nx = sys.version_info"),
        ("ottla/client/produce/sink.py", "self.print('x')\nself.stdout.write('x')\ny = 'print(1)'"),
        ("ottla/client/produce/sink.py", "assert partition >= 0, partition"),
    ],
)
def test_speaking_where_or_how_it_is_allowed_passes(path: str, code: str) -> None:
    assert report(printing([Source(path, code)])) == ""


@pytest.mark.parametrize(
    ("code", "line", "advice"),
    [
        ("try:\n    f()\nexcept:\n    raise", 3, "name the exceptions"),
        ("try:\n    f()\nexcept Exception:\n    pass", 3, "name the exception expected, or log it"),
        ("try:\n    f()\nexcept BaseException:\n    ...", 3, "name the exception expected, or log it"),
        ("try:\n    f()\nexcept Exception as e:\n    'ignored'", 3, "name the exception expected, or log it"),
        (
            "try:\n    f()\nexcept (OSError, Exception):\n    pass",
            3,
            "name the exception expected, or log it",
        ),
        ("for x in y:\n    try:\n        f()\n    except Exception:\n        continue", 4, "or log it"),
        ("try:\n    f()\nexcept* Exception:\n    pass", 3, "name the exception expected, or log it"),
        (
            "from contextlib import suppress\nwith suppress(Exception):\n    f()",
            2,
            "name the exception expected",
        ),
        ("import contextlib\nwith contextlib.suppress(OSError, BaseException): f()", 2, "name the exception"),
    ],
)
def test_a_swallowed_error_is_reported(code: str, line: int, advice: str) -> None:
    told = report(swallowed_errors([Source("ottla/cli/main.py", code)]))
    assert told.startswith(f"src/ottla/cli/main.py:{line}: ")
    assert advice in told
    assert "\n" not in told


@pytest.mark.parametrize(
    "code",
    [
        "try:\n    f()\nexcept OSError:\n    pass",
        "try:\n    f()\nexcept (KeyError, ValueError):\n    pass",
        "try:\n    f()\nexcept Exception:\n    log.exception('x')",
        "try:\n    f()\nexcept BaseException:\n    close()\n    raise",
        "try:\n    f()\nexcept Exception as error:\n    raise KafkaError() from error",
        "from contextlib import suppress\nwith suppress(FileNotFoundError):\n    f()",
    ],
)
def test_an_error_that_is_named_or_handled_passes(code: str) -> None:
    assert report(swallowed_errors([Source("ottla/client/produce/sink.py", code)])) == ""


@pytest.mark.parametrize(
    "path", ["ottla/client/produce/sink.py", "ottla/_native/core.pyx", "pyspark_ottla/__init__.py"]
)
def test_a_module_that_is_too_long_is_reported(path: str) -> None:
    told = report(long_modules([Source(path, "x = 1\n" * (MAX_LINES + 1))]))
    assert told == f"src/{path}:601: 601 lines, 600 is the most: split it by subject"


def test_a_module_of_just_that_length_passes() -> None:
    assert report(long_modules([Source("ottla/client/produce/sink.py", "x = 1\n" * MAX_LINES)])) == ""


def test_an_excepted_module_may_be_longer() -> None:
    assert all(LONG_MODULES.values()), "an exception gives its reason"
    assert report(long_modules([Source("ottla/errors.py", "x = 1\n" * 2000)])) == ""
