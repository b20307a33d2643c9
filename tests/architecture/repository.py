"""The shape of the repository: tests mirror the sources, and no file knows the machine it was written on."""

import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.architecture.source import Violation

# Folders of tests that mirror no package of src/ottla, and what they are about instead.
BESIDE_THE_TREE = {
    "architecture": "the rules for the sources as a whole",
    "bench": "bench/",
    "demo": "demo/",
    "docs": "docs/",
    "interop": "clients and brokers that nobody here wrote",
    "oracle": "slow, plain codecs that the fast ones are checked against",
    "records": "records and the batches they travel in, whichever codec reads them",
    "soak": "what must not grow, however long it runs",
    "tools": "tools/ and the Makefile",
}


def unmirrored_sources(package: Path, tests: Path) -> Iterator[Violation]:
    """Packages and modules without tests where a reader would look for them.

    wire/ has tests/wire/, _native/ has tests/native/, errors.py has tests/test_errors.py. A package inside a
    package has its own folder of tests, or one module: broker/log/ has tests/broker/log/ or
    tests/broker/test_log.py.
    """
    for path in sorted(package.rglob("*")):
        inside = path.relative_to(package)
        where = tests.joinpath(*(_public(part) for part in inside.parts))
        if path.is_dir() and any(path.glob("*.py")):
            module = where.with_name(f"test_{where.name}.py")
            if _has_tests(where) or (len(inside.parts) > 1 and module.is_file()):
                continue
            wanted = f"{_shown(where, tests)}/"
        elif len(inside.parts) == 1 and path.suffix == ".py" and not path.stem.startswith("__"):
            module = where.with_name(f"test_{where.name}")
            if module.is_file():
                continue
            wanted = _shown(module, tests)
        else:
            continue
        yield Violation(
            f"src/ottla/{inside.as_posix()}",
            1,
            f"has no tests where one looks for them: put them in {wanted}",
        )


def stray_test_folders(package: Path, tests: Path) -> Iterator[Violation]:
    """Folders of tests whose package is gone or has another name."""
    mirrored = {_public(path.name) for path in package.iterdir() if path.is_dir()}
    for folder in sorted(path for path in tests.iterdir() if path.is_dir()):
        if _has_tests(folder) and folder.name not in mirrored | BESIDE_THE_TREE.keys():
            yield Violation(
                f"tests/{folder.name}",
                1,
                f"mirrors no package of src/ottla: rename it after what it tests, or give it a line in "
                f"BESIDE_THE_TREE in tests/architecture/{Path(__file__).name}",
            )


def _public(name: str) -> str:
    return name.lstrip("_") if not name.startswith("__") else name


def _has_tests(folder: Path) -> bool:
    return folder.is_dir() and any(folder.rglob("test_*.py"))


def _shown(path: Path, tests: Path) -> str:
    return f"tests/{path.relative_to(tests).as_posix()}"


# Written in parts, so that this file does not break its own rule.
_HOSTS = [
    ("repo1", "maven", "org"),
    ("repo", "maven", "apache", "org"),
    ("central", "sonatype", "com"),
    ("oss", "sonatype", "org"),
    ("pypi", "org"),
    ("files", "pythonhosted", "org"),
    ("registry", "npmjs", "org"),
    ("crates", "io"),
    ("proxy", "golang", "org"),
    ("sum", "golang", "org"),
    ("deb", "debian", "org"),
]
HOSTS = [".".join(parts) for parts in _HOSTS]
# A slash after a letter, a dot or a closing bracket is the middle of a path or a link, not its start.
_HOME = re.compile(rb"(?<![\w.~)}\]>*-])/(?:root|work|(?:home|Users)/[\w.-]+)/")
_HOST = re.compile(rb"(?<![\w-])(?:" + "|".join(map(re.escape, HOSTS)).encode() + rb")(?![\w-])")


def tracked_files(root: Path) -> list[Path] | str:
    """The files under version control, or the reason why there are none to look at."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True)
    except OSError as error:
        return f"git does not run here: {error}"
    except subprocess.CalledProcessError as error:
        return f"not a git checkout: {error.stderr.decode(errors='replace').strip()}"
    names = listed.stdout.decode().split("\0")
    return [root / name for name in names if name and (root / name).is_file()]


def traces_of_a_machine(files: Iterable[Path], root: Path) -> Iterator[Violation]:
    """Home folders and package hosts: the first exist on one machine, the second are its own setting."""
    for file in files:
        content = file.read_bytes()
        for pattern, advice in (
            (_HOME, "is a path of one machine: make it relative to the file or the repository"),
            (_HOST, "is a package host: name the package and leave the host to the machine's own settings"),
        ):
            for match in pattern.finditer(content):
                line = content.count(b"\n", 0, match.start()) + 1
                yield Violation(
                    file.relative_to(root).as_posix(), line, f"{match[0].decode(errors='replace')} {advice}"
                )
