# cython: language_level=3, freethreading_compatible=True, auto_pickle=False
"""What becomes of records: receipts for them, the outcomes those refer to, and the budget that waiting records take.

There is one `Outcome` for all records of a batch, and a `Delivery` is no more than a reference to it and an index. A
batch that is split, and records that waited until their topic was known, have their outcomes elsewhere in the end:
the first one then says where, and keeps saying it, so that a receipt never changes.

Invariants: an outcome is set once, the first one counts; an outcome that has moved never moves again; and a callback
is called once, before or after the move, in the order in which they were added.
"""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.stdint cimport INT32_MAX, uint64_t

cdef extern from *:
    """
    #define atomic_load(number) __atomic_load_n(number, __ATOMIC_ACQUIRE)
    #define atomic_store(number, what) __atomic_store_n(number, what, __ATOMIC_RELEASE)
    """
    int atomic_load(int *number) nogil
    int64_t atomic_load64 "atomic_load" (int64_t *number) nogil
    void atomic_store(int *number, int what) nogil

cdef extern from *:
    """
    #define NONE_YET INT64_MIN
    #define FAR INT32_MIN
    """
    # The timestamp of the first receipt, before there is one.
    const int64_t NONE_YET
    # The distance of a timestamp that is too far from the first.
    const int32_t FAR


@cython.final
@cython.no_gc
cdef class Budget:
    """How many bytes and records may wait or be under way at a time, shared by all who charge it."""

    def __cinit__(self, int64_t most, int64_t most_records):
        self.most = most
        self.most_records = most_records

    @property
    def used(self):
        return atomic_load64(&self.used_bytes)

    @property
    def records(self):
        return atomic_load64(&self.used_records)

    cdef bint charge(self, int64_t size) noexcept:
        return add_within(&self.used_bytes, size, self.most)

    cdef void charge_anyway(self, int64_t size) noexcept:
        add_to(&self.used_bytes, size)

    cdef void refund(self, int64_t size) noexcept:
        add_to(&self.used_bytes, -size)

    cdef bint charge_records(self, int64_t count) noexcept:
        return add_within(&self.used_records, count, self.most_records)

    cdef void refund_records(self, int64_t count) noexcept:
        add_to(&self.used_records, -count)


@cython.final
cdef class Waiting:
    """How a thread waits for a record, and how its sender learns of that. Shared by all outcomes.

    Both lead back to the client, and receipts that the collector does not see lead here: `disconnect` ends that.
    """

    cdef object how_to_wait(self):
        with cython.critical_section(self):
            return self.wait

    cdef object how_to_unlinger(self):
        with cython.critical_section(self):
            return self.unlinger

    cdef int disconnect(self) except -1:
        cdef object wait, unlinger
        with cython.critical_section(self):
            # Dropped outside.
            wait, unlinger = self.wait, self.unlinger
            self.wait = self.unlinger = None
        return 0


cdef inline int64_t distance(int64_t first, int64_t timestamp) noexcept:
    # Unsigned: between both ends of the range it wraps around, and adding it wraps back.
    return <int64_t> (<uint64_t> timestamp - <uint64_t> first)


@cython.final
cdef class Callbacks:
    """Functions to call, each with the record that it is for: the numbers that its receipt is made of again.

    The collector sees the functions. It would not see a receipt, through which they would keep the outcome that keeps
    them.
    """

    def __cinit__(self):
        self.functions = []

    def __dealloc__(self):
        PyMem_Free(self.records)

    cdef int add(self, object function, int32_t index, int64_t created) except -1:
        """Runs no Python code, not even the garbage collector."""
        cdef Py_ssize_t count = len(self.functions)
        cdef Py_ssize_t room = self.room
        cdef called_for *records
        if count == room:
            room = max(16, 2 * room)
            records = <called_for *> PyMem_Realloc(self.records, room * sizeof(called_for))
            if records == NULL:
                raise MemoryError()
            self.records, self.room = records, room
        self.functions.append(function)
        self.records[count].index = index
        self.records[count].created = created
        return 0


cdef Callbacks NO_CALLBACKS = Callbacks()


@cython.final
cdef class Outcome:
    """What has become of the records of one batch. Not made by callers."""

    cdef bint is_completed(self) noexcept:
        return atomic_load(&self.completed) != 0

    cdef int add_callback(self, object function, int32_t index, int64_t created) except -1:
        """0: it is too late, the outcome is known or elsewhere."""
        cdef Callbacks callbacks = self.callbacks
        if callbacks is None:
            # Made before the check: making an object may run the garbage collector, and with it anything.
            callbacks = Callbacks.__new__(Callbacks)
        with cython.critical_section(self):
            if atomic_load(&self.completed) or atomic_load(&self.moved):
                return 0
            if self.callbacks is None:
                self.callbacks = callbacks
            self.callbacks.add(function, index, created)
            return 1

    cdef Callbacks conclude(self, int64_t base_offset, int64_t log_append_time, object error):
        """Sets the outcome and gives the callbacks to call; None if it was known already."""
        cdef Callbacks callbacks = NO_CALLBACKS
        with cython.critical_section(self):
            if atomic_load(&self.moved):
                raise RuntimeError("the records have gone elsewhere: complete the batches that they are in now")
            if atomic_load(&self.completed):
                return None
            self.base_offset = -1 if error is not None else base_offset
            self.log_append_time = log_append_time
            self.error = error
            atomic_store(&self.completed, 1)
            if self.callbacks is not None:
                callbacks, self.callbacks = self.callbacks, None
        return callbacks

    cdef int call_back(self, Callbacks callbacks, object batch) except -1:
        """What is called per record here is the function of the caller, and no other code of Python."""
        cdef list exits = []
        cdef Py_ssize_t number
        for number in range(len(callbacks.functions)):
            if callbacks.records[number].index == WHOLE_BATCH:
                notify(callbacks.functions[number], batch, exits)
            else:
                notify(
                    callbacks.functions[number],
                    new_delivery(self, callbacks.records[number].index, callbacks.records[number].created),
                    exits,
                )
        if exits:
            raise_outside(exits[0])
        return 0

    cdef int call_now(self, object function, int32_t index, int64_t created, object batch) except -1:
        """For a callback that comes after the outcome."""
        cdef Callbacks callbacks = Callbacks.__new__(Callbacks)
        callbacks.add(function, index, created)
        return self.call_back(callbacks, batch)

    cdef int move_to_halves(self, Outcome first, Outcome second, int32_t split_at) except -1:
        """Records from `split_at` on are those of the second half, from 0 on. Who waits for the batch hears of both."""
        cdef Callbacks callbacks, here = Callbacks.__new__(Callbacks), there = Callbacks.__new__(Callbacks)
        cdef Py_ssize_t number
        cdef called_for *record
        with cython.critical_section(self):
            if atomic_load(&self.moved) or atomic_load(&self.completed):
                raise RuntimeError("a batch that is completed or was split before cannot be split")
            callbacks = NO_CALLBACKS if self.callbacks is None else self.callbacks
            for number in range(len(callbacks.functions)):
                record = &callbacks.records[number]
                if record.index < split_at:
                    here.add(callbacks.functions[number], record.index, record.created)
                if record.index >= split_at:
                    there.add(callbacks.functions[number], record.index - split_at, record.created)
                elif record.index == WHOLE_BATCH:
                    there.add(callbacks.functions[number], record.index, record.created)
            # The halves are new: no callback can be in them yet.
            first.callbacks, second.callbacks = here, there
            self.first, self.second, self.split_at = first, second, split_at
            self.callbacks = None
            atomic_store(&self.moved, 1)
        return 0

    cdef int move_to(self, list bound) except -1:
        """Each record has a receipt elsewhere; callbacks go there, and are called at once if that is known."""
        cdef Callbacks callbacks = NO_CALLBACKS
        cdef Py_ssize_t number
        with cython.critical_section(self):
            self.bound = bound
            if self.callbacks is not None:
                callbacks, self.callbacks = self.callbacks, None
            atomic_store(&self.moved, 1)
        for number in range(len(callbacks.functions)):
            (<Delivery> bound[callbacks.records[number].index]).add_done_callback(callbacks.functions[number])
        return 0

    cdef int32_t keep_created(self, int32_t index, int64_t timestamp) except? -1:
        """How far a record's timestamp is from the first one; FAR, and it is kept in full, where that is too far."""
        cdef int64_t far
        cdef dict far_created = {}
        with cython.critical_section(self):
            if self.first_created == NONE_YET:
                self.first_created = timestamp
            far = distance(self.first_created, timestamp)
            if -INT32_MAX <= far <= INT32_MAX:
                return <int32_t> far
            if self.far_created is None:
                self.far_created = far_created
            self.far_created[index] = timestamp
        return FAR


cdef void notify(object function, object what, list exits) noexcept:
    # One callback that raises must not keep the next from being called, nor disturb the loop that has the response:
    # without a way to pass errors on, they go to sys.unraisablehook. Not those that are to end the program: Cython
    # would end it right here, in whatever thread this is, while others hold what the end of the program waits for.
    try:
        function(what)
    except (SystemExit, KeyboardInterrupt) as error:
        exits.append(error)


cdef int raise_outside(object error) except -1:
    """To the loop that runs here, between two of its callbacks; to the caller where there is none."""
    loop = get_running_loop()
    if loop is None:
        raise error
    loop.call_soon(raise_it, error)
    return 0


def raise_it(error):
    raise error


cdef inline Outcome place_of(Outcome outcome, int32_t *index):
    """The outcome that a record has by now, and its index there."""
    return moved_place(outcome, index) if atomic_load(&outcome.moved) else outcome


cdef Outcome moved_place(Outcome outcome, int32_t *index):
    cdef Delivery bound
    while atomic_load(&outcome.moved):
        if outcome.bound is not None:
            bound = <Delivery> outcome.bound[index[0]]
            index[0] = bound.at
            outcome = bound.outcome
        elif index[0] < outcome.split_at:
            outcome = outcome.first
        else:
            index[0] -= outcome.split_at
            outcome = outcome.second
    return outcome


@cython.final
@cython.no_gc
@cython.freelist(256)
cdef class Delivery:
    """The receipt for one record: whether it has been delivered, and where it is.

    `await delivery` waits for that in whatever loop is running, `delivery.result()` in a thread without one; both
    give the delivery itself or raise its error.

    Without garbage collection, since there may be millions of them: callbacks are kept by the outcome, without
    the receipt, and go when it is set.
    """

    def __init__(self):
        raise TypeError("receipts are made by append() and EncodedBatch.delivery()")

    @property
    def index(self):
        """Which record of its batch."""
        cdef int32_t index = self.at
        place_of(self.outcome, &index)
        return index

    @property
    def topic(self):
        return self.outcome.topic

    @property
    def partition(self):
        """Where the record goes; -1 as long as it is held because its topic is not known yet."""
        cdef int32_t index = self.at
        return place_of(self.outcome, &index).partition

    def done(self):
        """Whether the record has been delivered, or has failed for good."""
        cdef int32_t index = self.at
        return place_of(self.outcome, &index).is_completed()

    @property
    def offset(self):
        """The record's offset; -1 as long as it is unknown, which without acknowledgements it stays."""
        cdef int32_t index = self.at
        cdef Outcome outcome = place_of(self.outcome, &index)
        if not outcome.is_completed() or outcome.base_offset < 0:
            return -1
        return outcome.base_offset + index

    @property
    def timestamp(self):
        """The record's timestamp in ms: the broker's if the topic has it so, else the one it was given."""
        cdef int32_t index = self.at
        cdef Outcome outcome = place_of(self.outcome, &index)
        if outcome.is_completed() and outcome.log_append_time >= 0:
            return outcome.log_append_time
        return created(self)

    @property
    def error(self):
        """Why the record has not been delivered; None if it has, or if that is still open."""
        cdef int32_t index = self.at
        cdef Outcome outcome = place_of(self.outcome, &index)
        return outcome.error if outcome.is_completed() else None

    def add_done_callback(self, function):
        """Calls `function(delivery)` once the outcome is known: at once, or in the thread that learns of it."""
        cdef int32_t index = self.at
        cdef Outcome outcome = place_of(self.outcome, &index)
        cdef int64_t timestamp = created(self)
        while not outcome.add_callback(function, index, timestamp):
            if outcome.is_completed():
                outcome.call_now(function, index, timestamp, None)
                break
            outcome = place_of(outcome, &index)

    def __await__(self):
        if not self.done():
            unlinger(self)
            loop = running_loop()
            future = loop.create_future()
            self.add_done_callback(new_waker(loop, future))
            yield from future
        check(self)
        return self

    def result(self, timeout=None):
        """Waits until the record is delivered, `timeout` seconds at the most; for threads without a loop."""
        if not self.done():
            wait = None if self.outcome.waiting is None else self.outcome.waiting.how_to_wait()
            if wait is None:
                raise RuntimeError("nothing here can block until the record is delivered: await the delivery instead")
            unlinger(self)
            wait(self, timeout)
            if not self.done():
                raise TimeoutError(
                    f"the record for {where(self)} was not delivered within {timeout} s; it is still under way"
                )
        check(self)
        return self

    def __repr__(self):
        if not self.done():
            return f"<Delivery to {where(self)}: under way>"
        if self.error is not None:
            return f"<Delivery to {where(self)}: {self.error!r}>"
        return f"<Delivery to {where(self)}: offset {self.offset}>"


cdef int64_t created(Delivery delivery) except? -1:
    """The timestamp that the record was given."""
    if delivery.since_first == FAR:
        return delivery.outcome.far_created[delivery.at]
    return <int64_t> (<uint64_t> delivery.outcome.first_created + <uint64_t> delivery.since_first)


cdef int unlinger(Delivery delivery) except -1:
    cdef int32_t index = delivery.at
    cdef Outcome outcome = place_of(delivery.outcome, &index)
    cdef Waiting waiting = outcome.waiting
    outcome.urgent = True
    unlinger = None if waiting is None else waiting.how_to_unlinger()
    if unlinger is not None:
        unlinger(outcome.topic, outcome.partition)
    return 0


cdef int check(Delivery delivery) except -1:
    error = delivery.error
    if error is not None:
        # One error may be that of a million records: its traceback must not grow with every one that is raised.
        raise error.with_traceback(None)
    return 0


cdef str where(Delivery delivery):
    partition = delivery.partition
    return f"{delivery.topic}-{partition}" if partition >= 0 else str(delivery.topic)


# Taken from asyncio when first needed: importing it takes longer than all of the core.
cdef object running_loop_or_none = None


cdef object get_running_loop():
    global running_loop_or_none
    if running_loop_or_none is None:
        from asyncio import _get_running_loop
        running_loop_or_none = _get_running_loop
    return running_loop_or_none()


cdef object running_loop():
    loop = get_running_loop()
    if loop is None:
        raise RuntimeError("no event loop is running in this thread: use result() to wait without one")
    return loop


@cython.final
cdef class Waker:
    """Ends the wait of one `await`, from the thread of its loop or from another."""

    cdef object loop
    cdef object future

    def __call__(self, delivery):
        if running_loop_or_none() is self.loop:
            awaken(self.future)
            return
        try:
            self.loop.call_soon_threadsafe(awaken, self.future)
        except RuntimeError:
            # In a loop that has been closed nothing waits any more.
            if not self.loop.is_closed():
                raise


cdef Waker new_waker(object loop, object future):
    cdef Waker waker = Waker.__new__(Waker)
    waker.loop = loop
    waker.future = future
    return waker


def awaken(future):
    if not future.done():
        future.set_result(None)


cdef Outcome new_outcome(object topic, int32_t partition, Waiting waiting):
    cdef Outcome outcome = Outcome.__new__(Outcome)
    outcome.topic = topic
    outcome.partition = partition
    outcome.waiting = waiting
    outcome.base_offset = outcome.log_append_time = -1
    outcome.first_created = NONE_YET
    return outcome


cdef Delivery new_delivery(Outcome outcome, int32_t index, int64_t timestamp):
    cdef int64_t far
    cdef Delivery delivery = Delivery.__new__(Delivery)
    delivery.outcome = outcome
    delivery.at = index
    far = distance(outcome.first_created, timestamp)
    if outcome.first_created != NONE_YET and -INT32_MAX <= far <= INT32_MAX:
        delivery.since_first = <int32_t> far
    else:
        delivery.since_first = outcome.keep_created(index, timestamp)
    return delivery


cdef Delivery failed_delivery(object topic, int32_t partition, int64_t timestamp, object error):
    cdef Outcome outcome = new_outcome(topic, partition, None)
    outcome.conclude(-1, -1, error)
    return new_delivery(outcome, 0, timestamp)
