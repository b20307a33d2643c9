"""kcat, the command-line client on librdkafka: from the PATH, or fetched once into the cache folder.

Fetching takes no rights: the system's own package manager downloads the packages and they are unpacked beside the
jars of Apache Kafka. Where that cannot be done, `problem` says why.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from subprocess import CompletedProcess

from tests.interop import jars, supervise

# kcat and what it needs beyond the libraries that any system has.
_PACKAGES = ("kcat", "librdkafka1", "libyajl2")
_FETCH_S = 120.0


class MissingKcatError(RuntimeError):
    """There is no kcat here, and none could be fetched; the message says why."""


def run(bootstrap: str, *arguments: str, text: str = "", within: float = 60.0) -> CompletedProcess[str]:
    """Run kcat against a cluster, with `text` as its standard input."""
    program, environment = find()
    return supervise.run([program, "-b", bootstrap, *arguments], text=text, within=within, env=environment)


def problem() -> str | None:
    """Why there is no kcat; None when there is one."""
    try:
        find()
    except MissingKcatError as error:
        return str(error)
    return None


@functools.cache
def find() -> tuple[str, dict[str, str]]:
    """The program and the environment that it runs in."""
    installed = shutil.which("kcat")
    if installed is not None:
        return installed, dict(os.environ)
    folder = jars.cache_folder().parent / "kcat"
    if not folder.exists():
        _fetch(folder)
    libraries = sorted({str(path.parent) for path in folder.rglob("*.so*")})
    environment = {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(libraries)}
    program = str(folder / "usr" / "bin" / "kcat")
    _succeed([program, "-V"], env=environment)
    return program, environment


def _fetch(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        packages, root = Path(temporary, "packages"), Path(temporary, "root")
        packages.mkdir()
        _succeed(["apt-get", "download", *_PACKAGES], cwd=packages)
        for package in sorted(packages.glob("*.deb")):
            _succeed(["dpkg", "-x", str(package), str(root)])
        # Under its final name only when it is whole. Whoever was faster has the same.
        if not folder.exists():
            root.rename(folder)


def _succeed(command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    try:
        subprocess.run(
            command, cwd=cwd, env=env, check=True, capture_output=True, text=True, timeout=_FETCH_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingKcatError(f"no kcat on the PATH, and {command[0]} does not run: {error}") from None
    except subprocess.CalledProcessError as error:
        raise MissingKcatError(
            f"no kcat on the PATH, and {command[0]} failed: {error.stderr.strip()}"
        ) from None
