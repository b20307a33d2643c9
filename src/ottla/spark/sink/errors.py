"""What is wrong with rows that are to be written, in the words of the user."""

from __future__ import annotations


class SinkColumnError(ValueError):
    """The columns of what is to be written do not make records."""


class SinkRowError(ValueError):
    """A row says where to go in a way that is none, or cannot be written."""
