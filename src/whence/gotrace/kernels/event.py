"""Events as Python objects: Event, and Stream, which decodes one event after another.

An Event stores its numbers as C integers and makes a tuple only when `args` is read, so loops that use only types, or
only some events, stay fast.
"""

import cython
from cython.cimports.whence.gotrace.kernels import constants as c
from cython.cimports.whence.gotrace.kernels.layout import EventLayout
from cython.cimports.whence.gotrace.kernels.uvarint import whence_uvarint_size
from cython.cimports.whence.kernels.bytes import put_padded, put_uleb, uvarint

from whence._base.errors import TraceError
from whence.gotrace.quoting import event_line
from whence.gotrace.specs import Version

LARGEST = (1 << 64) - 1
MOST_ARGUMENTS = cython.declare(cython.int, 5)
LONGEST = cython.declare(cython.int, 10)  # bytes of an encoded number
KINDS = cython.declare(cython.int, 256)


@cython.final
@cython.cclass
class Event:
    """An event: Event(version, type, args=(), data=None, padding=None). `str(event)` is its text form.

    Args:
        version: the version of the trace.
        type: the number or the name of the kind of event.
        args: the arguments in the order of the spec; for a stack, followed by pc, func, file and line of each frame.
        data: bytes, for kinds that have data.
        padding: for each number (the length of data last), the bytes of its encoding beyond the needed ones; None if no
            number is padded or padding was not kept.
    """

    version = cython.declare(object, visibility="readonly")
    type = cython.declare(cython.uchar, visibility="readonly")
    data = cython.declare(object, visibility="readonly")
    padding = cython.declare(object, visibility="readonly")
    _numbers: cython.ulonglong[5]
    _count: cython.uchar
    _frames: object

    def __init__(self, version, type, args=(), data=None, padding=None):
        if not isinstance(version, Version):
            raise TypeError(f"version must be a whence.gotrace.Version, not {version!r}")
        specs = version.specs
        if type not in specs:
            raise TraceError("", None, f"event type {type} does not exist in {version.label}")
        spec = specs[type]
        args = tuple(args)
        count = len(spec.args)
        for value in args:
            if not 0 <= value <= LARGEST:
                raise TraceError(spec.name, None, f"argument {value} is not an unsigned number of 64 bits")
        if spec.is_stack:
            if len(args) < count or len(args) != count + 4 * args[1]:
                raise TraceError(spec.name, None, f"{len(args)} arguments do not match nframes")
        elif len(args) != count:
            names = ", ".join(spec.args) or "none"
            raise TraceError(spec.name, None, f"expected the arguments {names}; found {len(args)} values")
        if spec.has_data:
            data = bytes(data or b"")
        elif data is not None:
            raise TraceError(spec.name, None, "the event cannot have data; only String and ExperimentalBatch have")
        if padding is not None:
            padding = checked_padding(spec, [*args, len(data)] if spec.has_data else args, padding)
        if count > MOST_ARGUMENTS:
            raise TraceError(spec.name, None, f"{count} arguments are more than {MOST_ARGUMENTS}")
        self.version = version
        self.type = spec.type
        self._count = count
        for i in range(count):
            self._numbers[i] = args[i]
        self._frames = args[count:] if len(args) > count else None
        self.data = data
        self.padding = padding

    @property
    def args(self):
        """The arguments, as a tuple."""
        count: cython.int = self._count
        numbers: cython.p_ulonglong = self._numbers
        if count == 3:
            return (numbers[0], numbers[1], numbers[2])
        if count == 1:
            return (numbers[0],)
        if count == 4:
            return (numbers[0], numbers[1], numbers[2], numbers[3])
        if count == 2:
            if self._frames is not None:
                return (numbers[0], numbers[1], *self._frames)
            return (numbers[0], numbers[1])
        if count == 5:
            return (numbers[0], numbers[1], numbers[2], numbers[3], numbers[4])
        return ()

    @property
    def spec(self):
        """The kind of event: name, type and arguments."""
        return self.version.specs.by_type[self.type]

    @property
    def name(self):
        """The name of the kind, for instance ``GoStart``."""
        return self.version.specs.by_type[self.type].name

    @property
    def frames(self):
        """The frames of a stack, innermost first: (pc, func, file, line) each."""
        numbers = self._frames or ()
        return tuple([tuple(numbers[i : i + 4]) for i in range(0, len(numbers), 4)])

    def __getitem__(self, key):
        """Return an argument by its index or name."""
        index: cython.Py_ssize_t
        if isinstance(key, str):
            names = self.version.specs.by_type[self.type].args
            if key not in names:
                raise KeyError(key)
            index = names.index(key)
        else:
            index = key
        if 0 <= index < self._count:
            return self._numbers[index]
        return self.args[index]

    def encode(self):
        """Return the event in binary form."""
        out: cython.uchar[64]
        to: cython.p_uchar = out
        i: cython.int
        to[0] = self.type
        to += 1
        if self.padding is None:
            for i in range(self._count):
                to = put_uleb(to, self._numbers[i])
        else:
            for i in range(self._count):
                to = put_padded(to, self._numbers[i], self.padding[i])
        wire = cython.cast(cython.p_const_char, out)[: to - cython.cast(cython.p_uchar, out)]
        if self._frames is not None:
            parts = [wire]
            for index, value in enumerate(self._frames):
                parts.append(padded(value, 0 if self.padding is None else self.padding[self._count + index]))
            wire = b"".join(parts)
        if self.data is not None:
            extra = 0 if self.padding is None else self.padding[self._count]
            wire = wire + padded(len(self.data), extra) + self.data
        return wire

    def __str__(self):
        return event_line(self.encode(), self.version)

    def __repr__(self):
        data = f", data={self.data!r}" if self.data is not None else ""
        return f"Event({self.version.label}, {self.name}, {self.args}{data})"

    def _key(self):
        return (self.version, self.type, self.args, self.data)

    def __eq__(self, other):
        if not isinstance(other, Event):
            return NotImplemented
        return self._key() == cython.cast(Event, other)._key()

    def __hash__(self):
        return hash(self._key())

    def __reduce__(self):
        return Event, (self.version, self.type, self.args, self.data, self.padding)


def checked_padding(spec, numbers, padding) -> bytes:
    """Return a copy of the padding of an event's numbers, if each padded number fits in ten bytes."""
    extra: cython.int
    copy = bytes(padding)
    if len(copy) != len(numbers):
        raise TraceError(spec.name, None, f"padding has {len(copy)} values for {len(numbers)} numbers")
    for i, value in enumerate(numbers):
        extra = copy[i]
        if extra > LONGEST - whence_uvarint_size(value):
            raise TraceError(spec.name, None, f"{value} with {extra} bytes of padding is longer than ten bytes")
    return copy


def padded(value: cython.ulonglong, extra: cython.int) -> bytes:
    """Return a uvarint that has `extra` more bytes than it needs."""
    out: cython.uchar[24]
    if extra < 0 or extra > LONGEST - whence_uvarint_size(value):
        raise TraceError("", None, f"{value} with {extra} bytes of padding is longer than ten bytes")
    to: cython.p_uchar = put_padded(out, value, extra)
    return cython.cast(cython.p_const_char, out)[: to - cython.cast(cython.p_uchar, out)]


@cython.final
@cython.cclass
class Stream:
    """An iterator over the events in the bytes of a feed.

    `feed.window(used, cut)` gets the offset of the next event in the last window (-1 at first) and True if that event
    is cut off, and returns (bytes, start, stop); an empty window is the end. `feed.fail(fault, offset, type)` raises an
    error.
    """

    feed = cython.declare(object, visibility="readonly")
    version = cython.declare(object, visibility="readonly")
    _data: cython.const[cython.uchar][::1]
    _position: cython.Py_ssize_t
    _stop: cython.Py_ssize_t
    _layout: EventLayout
    _keep: cython.bint

    def __cinit__(self, feed, version, layout: EventLayout, keep_padding):
        self.feed = feed
        self.version = version
        self._layout = layout
        self._keep = keep_padding
        self._data = b"\0"
        self._position = -1
        self._stop = -1

    @property
    def position(self):
        """The offset of the next event in the current window."""
        return self._position

    def __iter__(self):
        return self

    def __next__(self):
        base: cython.p_const_uchar
        pos: cython.p_const_uchar
        end: cython.p_const_uchar
        kind: cython.int
        count: cython.int
        size: cython.int
        i: cython.int
        fault: cython.int
        value: cython.ulonglong = 0
        event: Event
        while True:
            if self._position >= self._stop:
                self.refill(False)
            base = cython.address(self._data[0])
            pos = base + self._position
            end = base + self._stop
            kind = pos[0]
            count = self._layout.counts[kind]
            if count == c.NO_EVENT:
                self.feed.fail(c.BAD_TYPE, self._position, kind)
                raise ValueError("the feed did not raise an error for a fault")
            pos += 1
            event = Event.__new__(Event)
            fault = c.FINE
            for i in range(count):
                size = uvarint(pos, end, cython.address(event._numbers[i]))
                if size <= 0:
                    fault = c.CUT if size == 0 else c.BAD_UVARINT
                    break
                pos += size
            if fault == c.FINE and self._layout.flags[kind] & (c.IS_STACK | c.HAS_DATA):
                if self._layout.flags[kind] & c.IS_STACK:
                    fault = read_frames(event, cython.address(pos), end)
                else:
                    size = uvarint(pos, end, cython.address(value))
                    if size <= 0:
                        fault = c.CUT if size == 0 else c.BAD_UVARINT
                    elif value > cython.cast(cython.ulonglong, end - pos - size):
                        fault = c.CUT
                    else:
                        pos += size
                        event.data = cython.cast(cython.p_const_char, pos)[:value]
                        pos += value
            if fault == c.CUT:
                self.refill(True)
                continue
            if fault != c.FINE:
                self.feed.fail(fault, pos - base, kind)
                raise ValueError("the feed did not raise an error for a fault")
            event.version = self.version
            event.type = kind
            event._count = count
            if self._keep:
                event.padding = padding_of(
                    base + self._position + 1, event, (self._layout.flags[kind] & c.HAS_DATA) != 0
                )
            self._position = pos - base
            return event

    def refill(self, cut):
        """Read the next window; raises StopIteration at the end."""
        offset: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        view: cython.const[cython.uchar][::1]
        data, offset, stop = self.feed.window(self._position, cut)
        if offset >= stop:
            self._position = self._stop = offset
            raise StopIteration
        view = data
        if offset < 0 or stop > view.shape[0]:
            raise ValueError(f"a window of {view.shape[0]} bytes does not contain [{offset}, {stop})")
        self._data = view
        self._position, self._stop = offset, stop


@cython.cfunc
def read_frames(event: Event, pos: cython.pointer(cython.p_const_uchar), end: cython.p_const_uchar) -> cython.int:
    """Read the frames of a stack into the event; return the fault."""
    count_left: cython.ulonglong = event._numbers[1]
    value: cython.ulonglong = 0
    size: cython.int
    i: cython.int
    if count_left == 0:
        return c.FINE
    if count_left > cython.cast(cython.ulonglong, end - pos[0]) // 4:
        return c.CUT
    numbers: list = []
    while count_left:
        for i in range(4):
            size = uvarint(pos[0], end, cython.address(value))
            if size <= 0:
                return c.CUT if size == 0 else c.BAD_UVARINT
            pos[0] += size
            numbers.append(value)
        count_left -= 1
    event._frames = tuple(numbers)
    return c.FINE


@cython.cfunc
def padding_of(pos: cython.p_const_uchar, event: Event, has_data: cython.bint):
    """Return the padding of each number of an event that was read from `pos`; None if no number is padded."""
    count: cython.Py_ssize_t = event._count + (0 if event._frames is None else len(event._frames)) + has_data
    value: cython.ulonglong = 0
    some: cython.bint = False
    extra: cython.int
    size: cython.int
    i: cython.Py_ssize_t
    padding = bytearray(count)
    for i in range(count):
        size = uvarint(pos, pos + 10, cython.address(value))
        pos += size
        extra = size - whence_uvarint_size(value)
        if extra:
            padding[i] = extra
            some = True
    return bytes(padding) if some else None
