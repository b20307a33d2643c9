"""Builds the compiled core with AddressSanitizer and UBSan, and runs its tests and fuzzers on it.

    python -m tools.sanitize [--batches N]

The build goes to build/sanitize, beside the ordinary one. Linux with gcc, whose runtime is loaded before Python.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
SITE = ROOT / "build" / "sanitize"
TESTS = ["tests/native", "tests/records"]

FLAGS = "-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g -O1"


def build(compiler: str) -> None:
    shutil.rmtree(SITE, ignore_errors=True)
    environment = {**os.environ, "CC": compiler, "CFLAGS": FLAGS, "LDFLAGS": "-fsanitize=address,undefined"}
    # setuptools would take objects of an ordinary build for its own.
    copy = ROOT / "build" / "sanitize-source"
    shutil.rmtree(copy, ignore_errors=True)
    ignored = shutil.ignore_patterns("*.so", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT / "src", copy / "src", ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, copy)
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(SITE),
        str(copy),
    ]
    subprocess.run(command, check=True, env=environment)
    shutil.rmtree(copy)


def runtime(compiler: str) -> str:
    """The library that has to be there before anything else allocates."""
    found = subprocess.run(
        [compiler, "-print-file-name=libasan.so"], check=True, capture_output=True, text=True
    )
    path = found.stdout.strip()
    if not os.path.isabs(path):
        raise SystemExit(f"{compiler} has no AddressSanitizer: install gcc and its libasan")
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description="The compiled core under AddressSanitizer and UBSan.")
    parser.add_argument("--batches", type=int, default=100_000, help="for the fuzzer (default: 100000)")
    options = parser.parse_args()
    compiler = os.environ.get("CC", "gcc")
    preload = runtime(compiler)
    print("sanitize: building", flush=True)
    build(compiler)
    environment = {
        **os.environ,
        "LD_PRELOAD": preload,
        # Python itself leaks on purpose at exit; a wrong access is what is looked for.
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        # Python's own allocator would hide accesses behind an object's end.
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": os.pathsep.join([str(SITE), str(ROOT)]),
    }
    python = [sys.executable, "-X", "faulthandler"]
    check = "import ottla._native.decode as d; print('sanitize: testing', d.__file__)"
    fuzz = ["-m", "tests.native.record_fuzz", "--batches", str(options.batches), "--seed", "1"]
    tests = [name for name in TESTS if (ROOT / name).exists()]
    for arguments in (["-c", check], ["-m", "pytest", "-q", "-p", "no:cacheprovider", *tests], fuzz):
        done = subprocess.run([*python, *arguments], cwd=ROOT, env=environment, check=False)
        if done.returncode != 0:
            return done.returncode
    print("sanitize: clean")
    return 0


if __name__ == "__main__":
    sys.exit(main())
