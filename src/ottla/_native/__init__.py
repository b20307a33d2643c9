"""The compiled core: what runs per record or per batch, and nothing else.

Checksums, the encoding and decoding of record batches, the producer's buffer, and JSON to columns, each in a module
of its own; the two checksums, which anybody may want, are also here. What has a slow twin in `tests/oracle` is held
together with it by the tests.
"""

from ottla._native.checksums import crc32c, murmur2

__all__ = ["crc32c", "murmur2"]
