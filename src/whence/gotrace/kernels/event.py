"""Events as Python objects: the Event itself, and the stream that makes one after another from wire bytes.

An Event keeps its numbers as C integers and makes a tuple of them when it is asked to, so that a loop that looks only
at types, or only at some events, pays for nothing else.
"""

import cython
from cython.cimports.whence.gotrace.kernels import constants as c
from cython.cimports.whence.gotrace.kernels.layout import Layout
from cython.cimports.whence.gotrace.kernels.uvarint import (
    put_padded,
    read_uvarint,
    whence_uvarint_size,
)
from cython.cimports.whence.kernels.bytes import put_uleb

from whence._base.errors import TraceError
from whence.gotrace.specs import Version

LARGEST = (1 << 64) - 1
MOST_ARGUMENTS = cython.declare(cython.int, 5)  # room for that many in an Event
LONGEST = cython.declare(cython.int, 10)  # bytes of a number on the wire
KINDS = cython.declare(cython.int, 256)


@cython.final
@cython.cclass
class Event:
    """One event: Event(version, type, args=(), data=None, padding=None).

    `type` is the number on the wire (a name does too, here); `args` are the arguments in the order of the spec, for a
    stack followed by pc, func, file and line of each frame; `data` is bytes where the spec has data, else None.
    `padding` is how many bytes more than it needs each number took on the wire (the length of the data last), or is
    None when all took as few as they can, or when the reader was not asked to keep it. `str(event)` is its text form.
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
            raise TypeError(f"the version is a whence.gotrace.Version, not {version!r}")
        specs = version.specs
        if type not in specs:
            raise TraceError("event", None, f"the type is one of {version.label}", type)
        spec = specs[type]
        args = tuple(args)
        count = len(spec.args)
        for value in args:
            if not 0 <= value <= LARGEST:
                raise TraceError(spec.name, None, "an argument is unsigned and has 64 bits", value)
        if spec.is_stack:
            if len(args) < count or len(args) != count + 4 * args[1]:
                raise TraceError(spec.name, None, "nframes says how many frames of four numbers follow", len(args))
        elif len(args) != count:
            raise TraceError(spec.name, None, f"the arguments are {', '.join(spec.args) or 'none'}", f"{len(args)}")
        if spec.has_data:
            data = bytes(data or b"")
        elif data is not None:
            raise TraceError(spec.name, None, "only String and ExperimentalBatch have data", data)
        if padding is not None:
            padding = checked_padding(spec, [*args, len(data)] if spec.has_data else args, padding)
        if count > MOST_ARGUMENTS:
            raise TraceError(spec.name, None, "an event has at most five arguments", count)
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
        """The arguments as a tuple."""
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
        """What this kind of event is."""
        return self.version.specs.by_type[self.type]

    @property
    def name(self):
        """For instance ``GoStart``."""
        return self.version.specs.by_type[self.type].name

    @property
    def frames(self):
        """Of a stack: (pc, func, file, line) of each frame, innermost first."""
        numbers = self._frames or ()
        return tuple([tuple(numbers[i : i + 4]) for i in range(0, len(numbers), 4)])

    def __getitem__(self, key):
        """An argument by its place or its name."""
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
        """The event on the wire."""
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
        whole = cython.cast(cython.p_const_char, out)[: to - cython.cast(cython.p_uchar, out)]
        if self._frames is not None:
            parts = [whole]
            for index, value in enumerate(self._frames):
                parts.append(padded(value, 0 if self.padding is None else self.padding[self._count + index]))
            whole = b"".join(parts)
        if self.data is not None:
            extra = 0 if self.padding is None else self.padding[self._count]
            whole = whole + padded(len(self.data), extra) + self.data
        return whole

    def __str__(self):
        from whence.gotrace.quoting import event_line

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
    """A copy of the padding of an event's numbers, each of which fits in ten bytes with it."""
    extra: cython.int
    found = bytes(padding)
    if len(found) != len(numbers):
        raise TraceError(spec.name, None, "padding has a value for each number", len(found))
    for i, value in enumerate(numbers):
        extra = found[i]
        if extra > LONGEST - whence_uvarint_size(value):
            raise TraceError(spec.name, None, "a padded number fits in ten bytes", f"{value} and {extra} more")
    return found


def padded(value: cython.ulonglong, extra: cython.int) -> bytes:
    """A uvarint of `extra` bytes more than it needs."""
    out: cython.uchar[24]
    if extra < 0 or extra > LONGEST - whence_uvarint_size(value):
        raise TraceError("event", None, "a padded number fits in ten bytes", extra)
    to: cython.p_uchar = put_padded(out, value, extra)
    return cython.cast(cython.p_const_char, out)[: to - cython.cast(cython.p_uchar, out)]


@cython.final
@cython.cclass
class Stream:
    """Events one after another: an iterator over the bytes of a feed.

    `feed.window(used, cut)` takes where in the last window the next event starts (-1 at first) and whether it is cut
    there, and returns (bytes, start, stop); an empty window is the end. `feed.fail(fault, where, type)` raises.
    """

    feed = cython.declare(object, visibility="readonly")
    version = cython.declare(object, visibility="readonly")
    _data: cython.const[cython.uchar][::1]
    _at: cython.Py_ssize_t
    _stop: cython.Py_ssize_t
    _layout: Layout
    _keep: cython.bint

    def __cinit__(self, feed, version, layout: Layout, keep_padding):
        self.feed = feed
        self.version = version
        self._layout = layout
        self._keep = keep_padding
        self._data = b"\0"
        self._at = -1
        self._stop = -1

    @property
    def position(self):
        """Where in its window the stream is."""
        return self._at

    def __iter__(self):
        return self

    def __next__(self):
        base: cython.p_const_uchar
        at: cython.p_const_uchar
        end: cython.p_const_uchar
        kind: cython.int
        count: cython.int
        got: cython.int
        i: cython.int
        fault: cython.int
        value: cython.ulonglong = 0
        event: Event
        while True:
            if self._at >= self._stop:
                self.refill(False)
            base = cython.address(self._data[0])
            at = base + self._at
            end = base + self._stop
            kind = at[0]
            count = self._layout.counts[kind]
            if count == c.NO_EVENT:
                self.feed.fail(c.BAD_TYPE, self._at, kind)
                raise ValueError("the feed goes on behind a fault")
            at += 1
            event = Event.__new__(Event)
            fault = c.FINE
            for i in range(count):
                got = read_uvarint(at, end, cython.address(event._numbers[i]))
                if got <= 0:
                    fault = c.CUT if got == 0 else c.BAD_UVARINT
                    break
                at += got
            if fault == c.FINE and self._layout.flags[kind] & (c.IS_STACK | c.HAS_DATA):
                if self._layout.flags[kind] & c.IS_STACK:
                    fault = read_frames(event, cython.address(at), end)
                else:
                    got = read_uvarint(at, end, cython.address(value))
                    if got <= 0:
                        fault = c.CUT if got == 0 else c.BAD_UVARINT
                    elif value > cython.cast(cython.ulonglong, end - at - got):
                        fault = c.CUT
                    else:
                        at += got
                        event.data = cython.cast(cython.p_const_char, at)[:value]
                        at += value
            if fault == c.CUT:
                self.refill(True)
                continue
            if fault != c.FINE:
                self.feed.fail(fault, at - base, kind)
                raise ValueError("the feed goes on behind a fault")
            event.version = self.version
            event.type = kind
            event._count = count
            if self._keep:
                event.padding = padding_of(base + self._at + 1, event, (self._layout.flags[kind] & c.HAS_DATA) != 0)
            self._at = at - base
            return event

    def refill(self, cut):
        """The next window; StopIteration at the end."""
        offset: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        view: cython.const[cython.uchar][::1]
        data, offset, stop = self.feed.window(self._at, cut)
        if offset >= stop:
            self._at = self._stop = offset
            raise StopIteration
        view = data
        if offset < 0 or stop > view.shape[0]:
            raise ValueError(f"a window of {view.shape[0]} bytes does not hold [{offset}, {stop})")
        self._data = view
        self._at, self._stop = offset, stop


@cython.cfunc
def read_frames(event: Event, at: cython.pointer(cython.p_const_uchar), end: cython.p_const_uchar) -> cython.int:
    """Read the frames of a stack into the event. Returns the fault."""
    left: cython.ulonglong = event._numbers[1]
    value: cython.ulonglong = 0
    got: cython.int
    i: cython.int
    if left == 0:
        return c.FINE
    if left > cython.cast(cython.ulonglong, end - at[0]) // 4:
        return c.CUT
    numbers: list = []
    while left:
        for i in range(4):
            got = read_uvarint(at[0], end, cython.address(value))
            if got <= 0:
                return c.CUT if got == 0 else c.BAD_UVARINT
            at[0] += got
            numbers.append(value)
        left -= 1
    event._frames = tuple(numbers)
    return c.FINE


@cython.cfunc
def padding_of(at: cython.p_const_uchar, event: Event, has_data: cython.bint):
    """The padding of each number of an event that was read from `at` on; None when there is none."""
    count: cython.Py_ssize_t = event._count + (0 if event._frames is None else len(event._frames)) + has_data
    value: cython.ulonglong = 0
    some: cython.bint = False
    extra: cython.int
    got: cython.int
    i: cython.Py_ssize_t
    found = bytearray(count)
    for i in range(count):
        got = read_uvarint(at, at + 10, cython.address(value))
        at += got
        extra = got - whence_uvarint_size(value)
        if extra:
            found[i] = extra
            some = True
    return bytes(found) if some else None
