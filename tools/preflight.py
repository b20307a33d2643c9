"""Says, in one line, what this machine lacks to build or test Ottla.

    python3 tools/preflight.py python compiler java

Runs before the virtual environment exists and on any Python, so: standard library only, and no syntax
newer than the oldest Python that people still have as python3 (3.7).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile


def check_python() -> str | None:
    if sys.version_info < (3, 11):
        found = "%d.%d" % sys.version_info[:2]
        return "Python 3.11 or newer is needed, %s is %s: install one and run make PYTHON=python3.11" % (
            sys.executable,
            found,
        )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        return "this Python cannot make virtual environments: install python3-venv (Debian, Ubuntu)"
    return None


def check_compiler() -> str | None:
    command = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()
    if shutil.which(command[0]) is None:
        return (
            "a C compiler is needed and %r was not found: install build-essential (Debian, Ubuntu), "
            "gcc (Fedora) or the Xcode command line tools (macOS), or set CC" % command[0]
        )
    include = sysconfig.get_paths()["include"]
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "probe.c")
        with open(source, "w") as file:
            file.write("#include <Python.h>\nint main(void) { return 0; }\n")
        compiled = subprocess.run(
            command + ["-I", include, "-c", source, "-o", os.path.join(folder, "probe.o")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    if compiled.returncode == 0:
        return None
    if not os.path.exists(os.path.join(include, "Python.h")):
        return (
            "Python's C headers are missing: install python3-dev (Debian, Ubuntu) or python3-devel (Fedora)"
        )
    first = (compiled.stdout.decode(errors="replace").splitlines() or ["no output"])[0]
    return "the C compiler %r cannot compile a one-line program: %s" % (" ".join(command), first)


def check_java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None or not os.path.exists(java):
        where = "JAVA_HOME is %s, which has no bin/java" % home if home else "no java was found"
        return (
            "Java 17 or newer is needed to run Apache Kafka and Spark, and %s: install openjdk-17-jre-headless"
            % where
        )
    answer = subprocess.run([java, "-version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    text = answer.stdout.decode(errors="replace")
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    if found is None:
        return "%s did not tell its version: it said %r" % (java, text[:80])
    if int(found.group(1)) < 17:
        return "Java 17 or newer is needed, %s is %s: install openjdk-17-jre-headless" % (
            java,
            found.group(1),
        )
    return None


CHECKS = {"python": check_python, "compiler": check_compiler, "java": check_java}


def main(names: list[str]) -> int:
    for name in names:
        if name not in CHECKS:
            sys.stderr.write("preflight: unknown check %r: one of %s\n" % (name, ", ".join(sorted(CHECKS))))
            return 2
        problem = CHECKS[name]()
        if problem is not None:
            sys.stderr.write("missing: %s\n" % problem)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
