# The arguments of append() as bytes: keys and values, headers as they are on the wire. Part of each module
# that takes records from callers.
#
# Everything that can be wrong with an argument is raised here, by its name and before any lock is taken. What was
# taken is released on every path, and nothing is kept of the arguments once append() returns.

cdef enum:
    # What most headers fit into, on the stack.
    USUAL_HEADERS = 512
    VARINT_MOST = 5


# Bytes objects, by far the most frequent, are used as they are, without the buffer protocol.

cdef struct argument:
    bytes_t bytes
    bint viewed
    Py_buffer view


cdef inline int take_argument(argument *taken, object given, str name) except -1:
    taken.viewed = False
    if PyBytes_CheckExact(given):
        taken.bytes.data = <const uint8_t *> PyBytes_AS_STRING(given)
        taken.bytes.length = PyBytes_GET_SIZE(given)
    elif given is None:
        taken.bytes.data = NULL
        taken.bytes.length = -1
    else:
        view_argument(taken, given, name)
    return 0


cdef int view_argument(argument *taken, object given, str name) except -1:
    if not PyObject_CheckBuffer(given):
        advice = f": encode it, or give the client a {name}_serializer" if name in ("key", "value") else ": encode it"
        raise TypeError(f"{name} must be bytes-like or None, not {type(given).__name__}{advice}")
    try:
        PyObject_GetBuffer(given, &taken.view, PyBUF_SIMPLE)
    except BufferError as error:
        raise ValueError(f"{name} must be contiguous in memory: {error}") from error
    taken.viewed = True
    taken.bytes.data = <const uint8_t *> taken.view.buf
    taken.bytes.length = taken.view.len
    return 0


cdef inline void release_argument(argument *taken) noexcept:
    if taken.viewed:
        PyBuffer_Release(&taken.view)


# Headers as they are on the wire: their number, then each key and value.

cdef struct header_text:
    uint8_t *data
    size_t size
    size_t capacity
    uint8_t usual[USUAL_HEADERS]


cdef uint8_t *header_room(header_text *text, size_t more) except NULL:
    cdef size_t capacity = text.capacity
    cdef uint8_t *data
    while text.size + more > capacity:
        capacity *= 2
    if capacity > text.capacity:
        if text.data == text.usual:
            data = <uint8_t *> PyMem_Malloc(capacity)
            if data != NULL:
                memcpy(data, text.usual, text.size)
        else:
            data = <uint8_t *> PyMem_Realloc(text.data, capacity)
        if data == NULL:
            raise MemoryError()
        text.data = data
        text.capacity = capacity
    return text.data + text.size


cdef void release_headers(header_text *text) noexcept:
    if text.data != text.usual:
        PyMem_Free(text.data)


cdef int write_headers(header_text *text, object headers) except -1:
    cdef list pairs
    cdef Py_ssize_t index
    if isinstance(headers, (list, tuple)):
        pairs = list(headers)
    elif hasattr(headers, "items"):
        pairs = list(headers.items())
    elif hasattr(headers, "__getitem__") and not isinstance(headers, (str, bytes, bytearray, memoryview)):
        pairs = list(headers)
    else:
        raise TypeError(f"headers must be a list of pairs, a dict or None, not {type(headers).__name__}")
    text.size = write_zigzag(text.data, len(pairs)) - text.data
    for index in range(len(pairs)):
        write_header(text, index, pairs[index])
    return 0


cdef int write_header(header_text *text, Py_ssize_t index, object pair) except -1:
    cdef bytes_t key
    cdef argument value
    cdef Py_ssize_t length
    cdef uint8_t *p
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise TypeError(f"headers[{index}] must be a pair of key and value, not {pair!r}")
    name, given = pair
    if not isinstance(name, str):
        raise TypeError(f"headers[{index}] must have a str as its key, not {type(name).__name__}")
    try:
        key.data = <const uint8_t *> PyUnicode_AsUTF8AndSize(name, &length)
    except UnicodeEncodeError as error:
        raise ValueError(f"headers[{index}] has a key that is not text: {error}") from error
    key.length = length
    take_argument(&value, given, f"headers[{index}]: value" if not PyBytes_CheckExact(given) else None)
    try:
        p = header_room(text, 2 * VARINT_MOST + key.length + max(value.bytes.length, 0))
        text.size = write_last_bytes(write_last_bytes(p, key), value.bytes) - text.data
    finally:
        release_argument(&value)
    return 0


# All of a record. What was taken is released on every path: begin, take in a try, release in its finally.

cdef struct arguments:
    record one
    argument key
    argument value
    header_text text

cdef const uint8_t no_headers = 0


cdef inline void begin_arguments(arguments *taken) noexcept:
    taken.key.viewed = taken.value.viewed = False
    taken.text.data = taken.text.usual
    taken.text.capacity = USUAL_HEADERS


cdef inline int take_arguments(
    arguments *taken, Settings settings, object key, object value, object headers, object timestamp
) except -1:
    take_argument(&taken.key, key, "key")
    take_argument(&taken.value, value, "value")
    taken.one.key = taken.key.bytes
    taken.one.value = taken.value.bytes
    if timestamp is None and settings.clock is None:
        taken.one.timestamp = native_milliseconds()
    else:
        taken.one.timestamp = timestamp_of(settings, timestamp)
    if headers is None:
        taken.one.headers.data = &no_headers
        taken.one.headers.length = 1
    else:
        write_headers(&taken.text, headers)
        taken.one.headers.data = taken.text.data
        taken.one.headers.length = taken.text.size
    return 0


cdef inline void release_arguments(arguments *taken) noexcept:
    release_argument(&taken.key)
    release_argument(&taken.value)
    release_headers(&taken.text)
