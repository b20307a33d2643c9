"""The compiled core, as the rest of Ottla sees it: CRC32C and murmur2 so far.

Only what runs per record or per batch lives below this line; everything else is Python. The slow twin of each
function is in `tests/oracle`, and the tests hold the two together.
"""

from ottla._native.checksums import crc32c, murmur2

__all__ = ["crc32c", "murmur2"]
