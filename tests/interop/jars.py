"""Jars that a lock file names, and where they are cached; without further words, those of Apache Kafka.

    python -m tests.interop.jars           fetch what the cache lacks
    python -m tests.interop.jars --lock    make the lock file anew from ROOTS

The cache lies outside the repository. A jar bears its final name only after its checksum was found right, so
a run that was cut short leaves nothing that the next one would trust. How a jar is fetched: `maven`.
"""

import fcntl
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.interop import maven

VERSION = "4.3.1"
# Kafka brings slf4j-api 1.7, whose log4j binding is log4j-slf4j-impl (log4j-slf4j2-impl is for slf4j 2).
ROOTS = (
    f"org.apache.kafka:kafka_2.13:{VERSION}",
    f"org.apache.kafka:kafka-tools:{VERSION}",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
)
LOCK_FILE = Path(__file__).with_name(f"kafka-{VERSION}.jars")
_DOWNLOADS_AT_ONCE = 6

Fetch = Callable[[str, Path], None]


class ChecksumError(RuntimeError):
    """A fetched jar is not the one the lock file names."""


@dataclass(frozen=True)
class Jar:
    """One line of the lock file."""

    coordinate: str
    sha256: str

    @property
    def file_name(self) -> str:
        # The group is part of the name: two groups may hold an artifact of the same name and version.
        group, artifact, version = self.coordinate.split(":")
        return f"{group}.{artifact}-{version}.jar"


def read_lock(lock_file: Path = LOCK_FILE) -> list[Jar]:
    """The jars that the lock file names, in its order, which is also the order of the class path."""
    lines = (line.split() for line in lock_file.read_text().splitlines())
    return [Jar(coordinate, sha256) for coordinate, sha256 in lines]


def cache_folder(lock_file: Path = LOCK_FILE) -> Path:
    """Where the jars of a lock file are kept: below $OTTLA_CACHE, else the user's cache folder."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("OTTLA_CACHE") or Path(home, "ottla")) / lock_file.stem


def ensure(lock_file: Path = LOCK_FILE, folder: Path | None = None, fetch: Fetch = maven.fetch) -> list[Path]:
    """The paths of all jars, after fetching those that are missing or damaged."""
    folder = folder or cache_folder(lock_file)
    jars = read_lock(lock_file)
    if not _is_complete(lock_file, jars, folder):
        with _alone(folder):
            # Whoever held the folder before may have done the work.
            if not _is_complete(lock_file, jars, folder):
                _fill(jars, folder, fetch)
                _marker(folder).write_text(json.dumps(_fingerprint(lock_file, jars, folder)))
    return [folder / jar.file_name for jar in jars]


def resolve_lock() -> None:
    """Resolve ROOTS anew and lock what they need."""
    sys.stderr.write(f"jars: resolving {', '.join(ROOTS)}\n")
    write_lock(maven.resolve(ROOTS))


def write_lock(coordinates: Iterable[str], lock_file: Path = LOCK_FILE) -> None:
    """Fetch every jar and write down its checksum."""
    folder = cache_folder(lock_file)
    with _alone(folder):
        locked = [Jar(*fetched) for fetched in _fetch_all(coordinates, folder, maven.fetch)]
        locked.sort(key=lambda jar: jar.coordinate)
        for jar in locked:
            target = folder / jar.file_name
            _part(target).replace(target)
        part = _part(lock_file)
        part.write_text("".join(f"{jar.coordinate} {jar.sha256}\n" for jar in locked))
        part.replace(lock_file)


def _fill(jars: Iterable[Jar], folder: Path, fetch: Fetch) -> None:
    wanted = {jar.coordinate: jar for jar in jars if not _is_intact(folder / jar.file_name, jar.sha256)}
    for coordinate, digest in _fetch_all(wanted, folder, fetch):
        jar = wanted[coordinate]
        target = folder / jar.file_name
        if digest != jar.sha256:
            _part(target).unlink()
            raise ChecksumError(f"{coordinate}: its SHA-256 is {digest}, the lock file says {jar.sha256}")
        _part(target).replace(target)


def _fetch_all(coordinates: Iterable[str], folder: Path, fetch: Fetch) -> Iterator[tuple[str, str]]:
    """Fetch each jar under a temporary name; yields coordinate and SHA-256 as they arrive."""

    def one(coordinate: str) -> tuple[str, str]:
        part = _part(folder / Jar(coordinate, "").file_name)
        fetch(coordinate, part)
        return coordinate, _sha256(part)

    with ThreadPoolExecutor(_DOWNLOADS_AT_ONCE) as pool:
        pending = [pool.submit(one, coordinate) for coordinate in coordinates]
        try:
            for done, future in enumerate(as_completed(pending), start=1):
                coordinate, digest = future.result()
                sys.stderr.write(f"jars: {done}/{len(pending)} {coordinate}\n")
                yield coordinate, digest
        finally:
            # After a failure the rest would only delay its message.
            pool.shutdown(cancel_futures=True)


def _fingerprint(lock_file: Path, jars: Iterable[Jar], folder: Path) -> dict[str, object]:
    """What the marker remembers. Size and time stand for the content: hashing it all takes too long."""
    stats = ((jar.file_name, (folder / jar.file_name).stat()) for jar in jars)
    return {
        "lock": _sha256(lock_file),
        "files": {name: [stat.st_size, stat.st_mtime_ns] for name, stat in stats},
    }


def _is_complete(lock_file: Path, jars: Iterable[Jar], folder: Path) -> bool:
    try:
        remembered = json.loads(_marker(folder).read_text())
        return bool(remembered == _fingerprint(lock_file, jars, folder))
    except (FileNotFoundError, json.JSONDecodeError):
        return False


def _is_intact(path: Path, sha256: str) -> bool:
    return path.exists() and _sha256(path) == sha256


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _marker(folder: Path) -> Path:
    return folder / "complete.json"


def _part(path: Path) -> Path:
    return path.with_name(path.name + ".part")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time may change the folder; the system gives up the lock of one that dies."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    if "--lock" in sys.argv[1:]:
        resolve_lock()
    sys.stderr.write(f"jars: {len(ensure())} in {cache_folder()}\n")
