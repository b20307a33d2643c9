"""Paths inside a volume: parts with "/" between them, none of which leads out of it."""

from __future__ import annotations


def split_path(path: str) -> tuple[str, str]:
    """The directory and the name of a file."""
    directory, _, name = path.rpartition("/")
    if not name:
        raise ValueError(f"{path!r} is no path of a file")
    _check_parts(path)
    return directory, name


def check_directory(path: str) -> None:
    """Refuses what is no directory of a volume; "" is the volume itself."""
    if path:
        _check_parts(path)


def _check_parts(path: str) -> None:
    for part in path.split("/"):
        if part in ("", ".", "..") or "\0" in part:
            raise ValueError(f"{path!r} is no path inside a volume: {part!r} cannot be a part of one")
