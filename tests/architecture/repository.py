"""The shape of the repository: tests mirror the sources, and no file knows the machine it was written on."""

import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests.architecture.imports import Graph, import_graph, imported_modules, nearest, reachable
from tests.architecture.source import Source, Violation
from tests.architecture.tested_through import TESTED_THROUGH

_TABLE = "tests/architecture/tested_through.py"

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


def unmirrored_sources(
    package: Path, tests: Path, through: Mapping[str, str] = TESTED_THROUGH
) -> Iterator[Violation]:
    """Modules without tests where a reader would look for them.

    wire/frames.py has tests/wire/test_frames.py, _native/memory.pyx has tests/native/test_memory.py. A module that is
    tested through another has a line in the table, which says where.
    """
    for inside in _modules(package):
        wanted = _mirror(inside)
        if (tests.parent / wanted).is_file():
            continue
        if inside not in through:
            yield Violation(
                f"src/ottla/{inside}",
                1,
                f'has no {wanted}: write it, or add to {_TABLE} where it is tested:\n    "{inside}": "tests/...",',
            )
        elif not (tests.parent / through[inside]).is_file():
            yield Violation(
                f"src/ottla/{inside}",
                1,
                f"{_TABLE} says {through[inside]}, which does not exist: mend the line",
            )


def unmirrored_packages(package: Path, tests: Path) -> Iterator[Violation]:
    """Packages without a folder of tests, or, for one inside another, a module: broker/log/ has tests/broker/log/
    or tests/broker/test_log.py.
    """
    for path in sorted(package.rglob("*")):
        if not path.is_dir() or not any(path.glob("*.py")):
            continue
        inside = path.relative_to(package)
        where = tests.joinpath(*(_public(part) for part in inside.parts))
        if _has_tests(where) or (
            len(inside.parts) > 1 and where.with_name(f"test_{where.name}.py").is_file()
        ):
            continue
        yield Violation(
            f"src/ottla/{inside.as_posix()}",
            1,
            f"has no tests where one looks for them: put them in tests/{where.relative_to(tests).as_posix()}/",
        )


def stale_mirrors(
    package: Path, tests: Path, through: Mapping[str, str] = TESTED_THROUGH
) -> Iterator[Violation]:
    """Lines of the table for modules that are gone, or have a test of their own name by now."""
    modules = set(_modules(package))
    for inside in through:
        if inside not in modules:
            yield Violation(_TABLE, 1, f"there is no src/ottla/{inside}: delete its line")
        elif (tests.parent / _mirror(inside)).is_file():
            yield Violation(_TABLE, 1, f"{inside} has {_mirror(inside)}: delete its line")


def unrelated_mirrors(
    sources: Iterable[Source], root: Path, through: Mapping[str, str] = TESTED_THROUGH
) -> Iterator[Violation]:
    """Lines whose test file cannot test the module: no import leads from the one to the other."""
    graph = import_graph(sources)
    for inside, test in through.items():
        module = f"ottla.{inside.rpartition('.')[0].replace('/', '.')}"
        if module not in graph or not (root / test).is_file():
            continue
        name = test.removesuffix(".py").replace("/", ".")
        _add_tests(name, root, graph)
        if module not in reachable(graph, name):
            yield Violation(test, 1, f"nothing here leads to {module}, which {_TABLE} says is tested here")


def distant_mirrors(through: Mapping[str, str] = TESTED_THROUGH) -> Iterator[Violation]:
    """Lines that lead into another package: a file that starts everything stands in for any module, and for none.

    wire/compression/gzip.py may be tested in tests/wire/ or in tests/wire/compression/. The compiled core is tested
    through the Python that uses it, wherever that is.
    """
    for inside, test in through.items():
        mirrored = _mirror(inside).rpartition("/")[0] + "/"
        folder = test.rpartition("/")[0] + "/"
        is_core = inside.startswith("_native/")
        if not (is_core or mirrored.startswith(folder) or folder.startswith(mirrored)):
            yield Violation(
                _TABLE, 1, f"{inside} is not tested in another package, as {test} is: write {_mirror(inside)}"
            )


def _add_tests(name: str, root: Path, graph: Graph) -> None:
    """Add a module of tests to the graph, and the helpers it imports."""
    if name in graph:
        return
    path = f"{name.replace('.', '/')}.py"
    graph[name] = {}
    for wanted in imported_modules(Source(path, (root / path).read_text(encoding="utf-8"))):
        target = nearest(wanted, lambda module: module in graph or _is_helper(module, root))
        if target is not None:
            graph[name][target] = 1
            _add_tests(target, root, graph)


def _is_helper(module: str, root: Path) -> bool:
    return module.startswith("tests.") and (root / f"{module.replace('.', '/')}.py").is_file()


def _modules(package: Path) -> Iterator[str]:
    for path in sorted(package.rglob("*")):
        if path.suffix in (".py", ".pyx") and not path.stem.startswith("__"):
            yield path.relative_to(package).as_posix()


def _mirror(inside: str) -> str:
    *folders, name = (_public(part) for part in inside.rpartition(".")[0].split("/"))
    return "/".join(["tests", *folders, f"test_{name}.py"])


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
