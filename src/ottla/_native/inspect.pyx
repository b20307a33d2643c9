# cython: language_level=3, freethreading_compatible=True
"""A look at the records of one batch, as a broker takes it before it appends them: inspect_records.c from Python."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t

from ottla.errors import DecodeError

cdef extern from "inspect_records.h" nogil:
    enum inspect_status:
        INSPECT_DONE
        INSPECT_FAULT
        INSPECT_BAD
    struct inspection:
        int32_t count
        int64_t base_timestamp
        int64_t earliest
        int64_t latest
        int keys_required
        int32_t next
        int offsets_are_dense
        int64_t max_timestamp
        int64_t timestamp
        int has_key
        const char *problem
    void inspect_start(inspection *, const uint8_t *data, size_t size)
    inspect_status inspect_go_on(inspection *)

cdef extern from "batch.h" nogil:
    enum:
        BATCH_BASE_OFFSET
        BATCH_LENGTH
        BATCH_LEADER_EPOCH
        BATCH_MAGIC
        BATCH_CRC
        BATCH_ATTRIBUTES
        BATCH_LAST_OFFSET_DELTA
        BATCH_BASE_TIMESTAMP
        BATCH_MAX_TIMESTAMP
        BATCH_PRODUCER_ID
        BATCH_PRODUCER_EPOCH
        BATCH_BASE_SEQUENCE
        BATCH_COUNT
        BATCH_OVERHEAD
        LOG_OVERHEAD
        MESSAGE_CRC
        MESSAGE_ATTRIBUTES
        MESSAGE_TIMESTAMP
        SMALLEST_MESSAGE
        ATTRIBUTE_CODEC
        ATTRIBUTE_LOG_APPEND_TIME
        ATTRIBUTE_TRANSACTIONAL
        ATTRIBUTE_CONTROL
        ATTRIBUTE_DELETE_HORIZON

cdef tuple _NO_FAULTS = ()

# What batch.h says, by the names that wire/batch_header.py has for it: for the test that compares them.
BATCH_LAYOUT = {
    "BASE_OFFSET_AT": BATCH_BASE_OFFSET,
    "LENGTH_AT": BATCH_LENGTH,
    "LEADER_EPOCH_AT": BATCH_LEADER_EPOCH,
    "MAGIC_AT": BATCH_MAGIC,
    "CRC_AT": BATCH_CRC,
    "ATTRIBUTES_AT": BATCH_ATTRIBUTES,
    "LAST_OFFSET_DELTA_AT": BATCH_LAST_OFFSET_DELTA,
    "BASE_TIMESTAMP_AT": BATCH_BASE_TIMESTAMP,
    "MAX_TIMESTAMP_AT": BATCH_MAX_TIMESTAMP,
    "PRODUCER_ID_AT": BATCH_PRODUCER_ID,
    "PRODUCER_EPOCH_AT": BATCH_PRODUCER_EPOCH,
    "BASE_SEQUENCE_AT": BATCH_BASE_SEQUENCE,
    "COUNT_AT": BATCH_COUNT,
    "BATCH_OVERHEAD": BATCH_OVERHEAD,
    "LOG_OVERHEAD": LOG_OVERHEAD,
    "MESSAGE_CRC_AT": MESSAGE_CRC,
    "MESSAGE_ATTRIBUTES_AT": MESSAGE_ATTRIBUTES,
    "MESSAGE_TIMESTAMP_AT": MESSAGE_TIMESTAMP,
    "SMALLEST_MESSAGE": SMALLEST_MESSAGE,
    "CODEC": ATTRIBUTE_CODEC,
    "APPEND_TIME": ATTRIBUTE_LOG_APPEND_TIME,
    "TRANSACTIONAL": ATTRIBUTE_TRANSACTIONAL,
    "CONTROL": ATTRIBUTE_CONTROL,
    "DELETE_HORIZON": ATTRIBUTE_DELETE_HORIZON,
}


def inspect(data, int32_t count, int64_t base_timestamp, *, int64_t earliest, int64_t latest,
            bint keys_required):
    """(whether the offset deltas are 0, 1, 2, ..., the largest timestamp, the faults) of `count` records.

    `data` are the records alone, without the header and decompressed. A fault is (index, timestamp, whether the
    record has a key): it lies outside of `earliest` to `latest`, unless it is -1, or lacks a key that is
    required. Bytes that are not that many records raise DecodeError.
    """
    cdef Py_buffer view
    cdef inspection found
    cdef inspect_status status
    faults = _NO_FAULTS
    if not PyObject_CheckBuffer(data):
        raise TypeError(f"data must be a bytes-like object, not {type(data).__name__}")
    found.count = count
    found.base_timestamp = base_timestamp
    found.earliest = earliest
    found.latest = latest
    found.keys_required = keys_required
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        inspect_start(&found, <const uint8_t *> view.buf, <size_t> view.len)
        status = inspect_go_on(&found)
        while status == INSPECT_FAULT:
            if not faults:
                faults = []
            faults.append((found.next - 1, found.timestamp, found.has_key != 0))
            status = inspect_go_on(&found)
    finally:
        PyBuffer_Release(&view)
    if status == INSPECT_BAD:
        raise DecodeError(f"record {found.next} of {count}: {found.problem.decode()}")
    return found.offsets_are_dense != 0, found.max_timestamp, faults
