# Message sets of magic 0 and 1, which brokers before 0.11 wrote and old segments still hold. Part of decode.pyx.
#
# They are rare, so this runs with the GIL and takes its CRC32 from zlib. A compressed message is a wrapper: its
# value is a message set of its own, whose offsets are absolute (magic 0) or relative to the last one (magic 1).

cdef struct old_message:
    int64_t offset
    int64_t timestamp
    int attributes
    int magic
    const uint8_t *key
    int32_t key_length
    const uint8_t *value
    int32_t value_length
    size_t size


cdef int _read_old_message(const uint8_t *p, size_t left, bint check_crc, old_message *out) except -1:
    cdef const uint8_t *end
    cdef int32_t size
    if left < SMALLEST_MESSAGE:
        raise DecodeError("a message is shorter than its header")
    size = <int32_t> load32(p + BATCH_LENGTH)
    if size < SMALLEST_MESSAGE - LOG_OVERHEAD or <size_t> size > left - LOG_OVERHEAD:
        raise DecodeError("a message claims more bytes than there are")
    out.size = LOG_OVERHEAD + <size_t> size
    end = p + out.size
    out.offset = <int64_t> load64(p + BATCH_BASE_OFFSET)
    out.magic = p[BATCH_MAGIC]
    out.attributes = p[MESSAGE_ATTRIBUTES]
    if out.magic > 1:
        raise DecodeError("a message set holds something that is no message")
    if check_crc and load32(p + MESSAGE_CRC) != crc32(
        PyMemoryView_FromMemory(<char *> p + BATCH_MAGIC, out.size - BATCH_MAGIC, PyBUF_READ)
    ):
        raise DecodeError("the checksum of the message is wrong")
    p += MESSAGE_TIMESTAMP
    out.timestamp = -1
    if out.magic == 1:
        if end - p < 16:
            raise DecodeError("a message is shorter than its header")
        out.timestamp = <int64_t> load64(p)
        p += 8
    # As in Kafka, any negative length is null, and bytes behind the value are passed over.
    out.key_length = max(-1, <int32_t> load32(p))
    out.key = p + 4
    if max(0, out.key_length) > end - out.key - 4:
        raise DecodeError("a message's key is longer than the message")
    p = out.key + max(0, out.key_length)
    out.value_length = max(-1, <int32_t> load32(p))
    out.value = p + 4
    if max(0, out.value_length) > end - out.value:
        raise DecodeError("a message's value is longer than the message")
    return 0


cdef int _deliver_old_message(Records records, old_message *message, int timestamp_type) except -1:
    cdef scan *s = &records._scan
    cdef record *made
    if message.offset < s.wanted_offset:
        return 0
    if s.count == s.room:
        _make_room(records, 1)
    made = &s.records[s.count]
    made.offset = message.offset
    made.timestamp = message.timestamp
    made.key = message.key
    made.value_at = <uint32_t> (message.value - message.key)
    made.headers_at = 0
    made.key_length = message.key_length
    made.value_length = message.value_length
    made.headers_and_flags = record_headers_and_flags(0, 0, timestamp_type)
    made.leader_epoch = -1
    s.count += 1
    s.key_bytes += max(0, message.key_length)
    s.value_bytes += max(0, message.value_length)
    return 0


cdef size_t _scan_old_message(Records records, decompress, size_t limit) except? 0:
    """The message under the scan, or all in it; how many bytes it grew to."""
    cdef scan *s = &records._scan
    cdef old_message message
    cdef size_t count = s.count, grown = 0
    cdef uint64_t key_bytes = s.key_bytes, value_bytes = s.value_bytes
    _read_old_message(s.data + s.position, s.batch.size, s.check_crc, &message)
    try:
        if message.attributes & ATTRIBUTE_CODEC:
            grown = _deliver_wrapped(records, &message, decompress, limit)
        else:
            _deliver_old_message(records, &message, _old_timestamp_type(&message))
    except DecodeError:
        # A damaged message leaves no trace.
        s.count, s.key_bytes, s.value_bytes = count, key_bytes, value_bytes
        raise
    s.position += s.batch.size
    s.next_offset = _plus(message.offset, 1)
    return grown


cdef int64_t _plus(int64_t a, int64_t b) noexcept:
    # Offsets that a peer made up may overflow; that is defined for unsigned numbers only.
    return <int64_t> (<uint64_t> a + <uint64_t> b)


cdef int _old_timestamp_type(const old_message *message) noexcept:
    if message.magic == 0:
        return -1
    return 1 if message.attributes & ATTRIBUTE_LOG_APPEND_TIME else 0


cdef size_t _deliver_wrapped(Records records, old_message *wrapper, decompress, size_t limit) except? 0:
    cdef Py_buffer content
    cdef old_message inner
    cdef int64_t shift = 0
    cdef const uint8_t *p
    cdef size_t left
    cdef int timestamp_type = _old_timestamp_type(wrapper)
    if wrapper.value_length < 0:
        raise DecodeError("a compressed message has no value")
    plain = decompress(
        wrapper.attributes & ATTRIBUTE_CODEC,
        PyMemoryView_FromMemory(<char *> wrapper.value, wrapper.value_length, PyBUF_READ),
        limit,
    )
    PyObject_GetBuffer(plain, &content, PyBUF_SIMPLE)
    try:
        # Some versions of librdkafka left a wrapper's offset at 0: its inner offsets are absolute then.
        if wrapper.magic == 1 and wrapper.offset != 0:
            shift = _plus(wrapper.offset, <int64_t> -<uint64_t> _last_inner_offset(&content))
        p = <const uint8_t *> content.buf
        left = <size_t> content.len
        while left:
            _read_old_message(p, left, records._scan.check_crc, &inner)
            if inner.attributes & ATTRIBUTE_CODEC:
                raise DecodeError("a compressed message holds another")
            inner.offset = _plus(inner.offset, shift)
            if timestamp_type == 1:
                inner.timestamp = wrapper.timestamp
            _deliver_old_message(records, &inner, 1 if timestamp_type == 1 else _old_timestamp_type(&inner))
            p += inner.size
            left -= inner.size
        records._decompressed.append(plain)
        return <size_t> content.len
    finally:
        PyBuffer_Release(&content)


cdef int64_t _last_inner_offset(Py_buffer *content) except? -1:
    cdef const uint8_t *p = <const uint8_t *> content.buf
    cdef size_t left = <size_t> content.len
    cdef old_message inner
    cdef int64_t last = 0
    while left:
        _read_old_message(p, left, False, &inner)
        last = inner.offset
        p += inner.size
        left -= inner.size
    return last
