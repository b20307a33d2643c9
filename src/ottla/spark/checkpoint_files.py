"""The files of a checkpoint, read where Spark has written them: on a local disk, or wherever Arrow knows the way.

Not here: what is in them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


def contents(place: str) -> bytes:
    """Of a file on a local disk, or of one that Arrow knows how to reach (hdfs:, s3:, gs:, abfs:).

    Raises OSError, and ValueError for a scheme that Arrow does not know.
    """
    local = local_path(place)
    if local is not None:
        return local.read_bytes()
    system, path = _system(place)
    with system.open_input_stream(path) as stream:
        found: bytes = stream.read()
    return found


def numbered(place: str) -> dict[int, datetime | None]:
    """The files of a folder whose names are numbers, with when they were written; none if there is no such folder."""
    local = local_path(place)
    if local is not None:
        if not local.is_dir():
            return {}
        return {
            int(each.name): datetime.fromtimestamp(each.stat().st_mtime, UTC)
            for each in local.iterdir()
            if each.name.isdigit()
        }
    from pyarrow.fs import FileSelector

    system, path = _system(place)
    selected = system.get_file_info(FileSelector(path, allow_not_found=True))
    return {int(each.base_name): each.mtime for each in selected if each.base_name.isdigit()}


def local_path(place: str) -> Path | None:
    """Where that is on this machine's disk; None if it is somewhere else."""
    scheme, colon, rest = place.partition(":")
    if not colon or "/" in scheme:
        return Path(place)
    if scheme != "file":
        return None
    # file:/a, file:///a and file://localhost/a are the same to Hadoop, which does not take %20 for a blank.
    if rest.startswith("//"):
        rest = "/" + rest[2:].partition("/")[2]
    return Path(rest)


def _system(place: str) -> tuple[FileSystem, str]:
    from pyarrow.fs import FileSystem

    scheme, _, rest = place.partition(":")
    # Arrow calls Hadoop's names for one store by another.
    uri = "s3:" + rest if scheme in ("s3a", "s3n") else place
    system, path = FileSystem.from_uri(uri)
    return system, path
