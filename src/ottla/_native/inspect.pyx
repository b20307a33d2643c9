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

cdef tuple _NO_FAULTS = ()


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
