# cython: language_level=3, freethreading_compatible=True, auto_pickle=False
"""What recovery does per batch of a segment: scan_batches.c from Python.

What the batches that are told mean to leader epochs and producers is broker/log/recovery.py.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t

from ottla._native.record_batch import read_header

cdef extern from "crc32c.h" nogil:
    void crc32c_setup()

cdef extern from "scan_batches.h" nogil:
    enum:
        BATCH_OVERHEAD
    struct scanned_batch:
        int64_t position
        uint8_t header[BATCH_OVERHEAD]
        uint8_t is_told
    struct entries:
        uint8_t *data
        size_t size
    struct batch_scan:
        int64_t position
        int64_t next_offset
        int64_t first_timestamp
        int64_t max_timestamp
        int64_t max_timestamp_offset
        int64_t unindexed
        int is_damaged
        scanned_batch *batches
        size_t count
        entries offset_entries
        entries time_entries
    void batch_scan_start(batch_scan *, int64_t, int64_t, int64_t, int64_t)
    void batch_scan_end(batch_scan *)
    int batch_scan_feed(batch_scan *, const uint8_t *, size_t)


@cython.final
cdef class SegmentScan:
    """Reads a segment of `size` bytes, piece by piece, up to the first batch that is damaged or torn.

    Leader epochs up to `latest_epoch` are known. All that can be asked concerns the batches that were whole.
    """

    cdef batch_scan scan

    def __cinit__(self, int64_t size, int64_t base_offset, int64_t index_interval, int64_t latest_epoch):
        batch_scan_start(&self.scan, size, base_offset, index_interval, latest_epoch)

    def __dealloc__(self):
        batch_scan_end(&self.scan)

    def feed(self, data):
        """Takes the next bytes; (position, header) of the batches to look at, new entries of the two indexes.

        Those are the batches with which a leader epoch begins, the markers, and of each producer the first and the
        last ones: all others leave its state as it is.
        """
        cdef Py_buffer view
        cdef int failed
        cdef size_t number
        cdef scanned_batch *batch
        if not PyObject_CheckBuffer(data):
            raise TypeError(f"data must be a bytes-like object, not {type(data).__name__}")
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        with nogil:
            failed = batch_scan_feed(&self.scan, <const uint8_t *> view.buf, <size_t> view.len)
        PyBuffer_Release(&view)
        if failed:
            raise MemoryError
        told = []
        for number in range(self.scan.count):
            batch = &self.scan.batches[number]
            if batch.is_told:
                header = PyBytes_FromStringAndSize(<const char *> batch.header, BATCH_OVERHEAD)
                told.append((batch.position, read_header(header)))
        return told, as_bytes(&self.scan.offset_entries), as_bytes(&self.scan.time_entries)

    @property
    def is_damaged(self):
        """Whether a batch has been met that is not whole: what follows it is not looked at."""
        return self.scan.is_damaged != 0

    @property
    def position(self):
        return self.scan.position

    @property
    def next_offset(self):
        return self.scan.next_offset

    @property
    def first_timestamp(self):
        """The largest of the first batch."""
        return self.scan.first_timestamp

    @property
    def max_timestamp(self):
        return self.scan.max_timestamp

    @property
    def max_timestamp_offset(self):
        """The last offset of the batch that has it."""
        return self.scan.max_timestamp_offset

    @property
    def unindexed(self):
        """Bytes behind the last entry."""
        return self.scan.unindexed


cdef bytes as_bytes(const entries *written):
    return PyBytes_FromStringAndSize(<const char *> written.data, <Py_ssize_t> written.size)


crc32c_setup()
