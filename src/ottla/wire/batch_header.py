"""Where the fields of a record batch lie: the one Python module that knows.

Every position counts from the first byte of the batch. `_native/batch.h` says the same in C, and a test compares the
two. What the fields mean to a reader is in batches.py and in the modules that use them; here are positions, layouts,
sizes and bits.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

MAGIC: Final = 2
"""The format that is described here; messages of magic 0 and 1 are at the end."""

BASE_OFFSET_AT: Final = 0
LENGTH_AT: Final = 8
LEADER_EPOCH_AT: Final = 12
MAGIC_AT: Final = 16
CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21
LAST_OFFSET_DELTA_AT: Final = 23
BASE_TIMESTAMP_AT: Final = 27
MAX_TIMESTAMP_AT: Final = 35
PRODUCER_ID_AT: Final = 43
PRODUCER_EPOCH_AT: Final = 51
BASE_SEQUENCE_AT: Final = 53
COUNT_AT: Final = 57

BATCH_OVERHEAD: Final = 61
"""The bytes of a batch before its first record."""
LOG_OVERHEAD: Final = 12
"""Offset and length: what precedes a batch or a message of any magic. The length counts from here on."""
ATTRIBUTES_LOW_AT: Final = ATTRIBUTES_AT + 1
"""The lower byte of the attributes, which has every bit that is in use."""
CHECKED_FROM: Final = ATTRIBUTES_AT
"""The checksum (CRC32C) is that of everything from here on."""

HEADER: Final = Struct(">qiibIhiqqqhii")
"""All fields, in the order of their positions."""
PREFIX: Final = Struct(">qi")
"""Base offset and length: what stands first in a batch or a message of any magic."""
OFFSETS: Final = Struct(">qi11xi")
"""Base offset, length and last offset delta, from the beginning of a batch."""
EPOCH_AND_DELTA: Final = Struct(">i7xi")
"""Leader epoch and last offset delta, from LEADER_EPOCH_AT on."""
_INT8: Final = Struct(">b")
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_UINT32: Final = Struct(">I")
_INT64: Final = Struct(">q")

# Logs and fetches call these for every batch. They are bound once: the method of a name that a module has imported is
# bound anew for each call (CPython 3.11), which costs a walk over batches a tenth of its time.
unpack_header: Final = HEADER.unpack_from
unpack_prefix: Final = PREFIX.unpack_from
unpack_offsets: Final = OFFSETS.unpack_from
unpack_epoch_and_delta: Final = EPOCH_AND_DELTA.unpack_from
unpack_length: Final = _INT32.unpack_from
unpack_signed_magic: Final = _INT8.unpack_from
"""As Kafka shows a magic that it does not know."""
unpack_crc: Final = _UINT32.unpack_from
unpack_count: Final = _INT32.unpack_from
pack_header: Final = HEADER.pack_into
pack_base_offset: Final = _INT64.pack_into
pack_length: Final = _INT32.pack_into
pack_leader_epoch: Final = _INT32.pack_into
pack_crc: Final = _UINT32.pack_into
pack_attributes: Final = _INT16.pack_into
pack_max_timestamp: Final = _INT64.pack_into

CODEC: Final = 0x07
APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

LARGEST_SEQUENCE: Final = 0x7FFFFFFF
"""Behind it comes 0."""

# A message of magic 0 or 1 has its magic at the same byte, and of the attributes the codec and, since magic 1, the
# kind of its timestamp. Its checksum (CRC32) is that of everything from the magic on.
MESSAGE_CRC_AT: Final = 12
MESSAGE_ATTRIBUTES_AT: Final = 17
MESSAGE_TIMESTAMP_AT: Final = 18
"""Since magic 1."""
SMALLEST_MESSAGE: Final = 26
"""Magic 0 with neither key nor value. Also where the timestamp of magic 1 ends."""
SMALLEST_LENGTH: Final = SMALLEST_MESSAGE - LOG_OVERHEAD
"""What the length of anything that is whole says at the least."""
unpack_message_timestamp: Final = _INT64.unpack_from
