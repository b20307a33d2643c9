"""The one module that talks to the artifact registry: jgo's pure-Python resolver with its default remote.

What to fetch and how to know that it is right is `jars`' business. jgo is imported on use only: a filled
cache needs neither it nor the network.
"""

import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jgo.maven import MavenContext

_TIMEOUT_S = 60
_ATTEMPTS = 3


class FetchError(RuntimeError):
    """An artifact could not be had; the message names it and what to do."""


def resolve(roots: Iterable[str]) -> list[str]:
    """The coordinates `group:artifact:version` of the roots and everything they need at run time, sorted."""
    with tempfile.TemporaryDirectory() as scratch:
        context = _context(Path(scratch))
        # "!" is jgo's raw mode. Without it jgo imports every root as a BOM, and the versions managed by
        # log4j's parent then replace Kafka's own: kafka-clients 3.9 under a 4.3 broker.
        wanted = [context.create_dependency(f"{root}!") for root in roots]
        found, transitive = context.resolver.resolve(wanted)
        coordinates = []
        for dependency in [*found, *transitive]:
            if dependency.type != "jar" or dependency.classifier:
                raise FetchError(f"{dependency} is not a plain jar, which the lock file cannot express")
            coordinates.append(f"{dependency.groupId}:{dependency.artifactId}:{dependency.version}")
        return sorted(coordinates)


def fetch(coordinate: str, target: Path) -> None:
    """Download one jar to `target`, again when the network fails."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with tempfile.TemporaryDirectory() as scratch:
                jar = _context(Path(scratch)).create_dependency(f"{coordinate}!").artifact.resolve()
                shutil.move(os.fspath(jar), target)
            return
        # The errors of jgo's HTTP client are OSErrors.
        except OSError as error:
            if attempt == _ATTEMPTS:
                raise FetchError(
                    f"cannot fetch {coordinate}: {error}; the first run needs the network, or OTTLA_CACHE "
                    "naming a folder that another run has filled"
                ) from error
        except RuntimeError as error:
            raise FetchError(f"cannot fetch {coordinate}: {error}") from error


def _context(scratch: Path) -> "MavenContext":
    from jgo.maven import MavenContext

    return MavenContext(repo_cache=scratch, timeout=_TIMEOUT_S)
