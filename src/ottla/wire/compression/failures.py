"""The two ways in which decompression fails, in the same words for every codec."""

from __future__ import annotations

from ottla.errors import DecodeError


def too_large(codec: str, limit: int) -> DecodeError:
    return DecodeError(
        f"{codec} data decompress to more than the limit of {limit} bytes: if batches are meant to be that "
        "large, raise the limit (max_decompressed); otherwise let the producer send smaller ones"
    )


def damaged(codec: str, what: object) -> DecodeError:
    return DecodeError(f"{codec} data are damaged: {what}")
