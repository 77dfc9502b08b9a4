"""The memory of a CPython process, made from values: a runtime, interpreters, thread states and frames."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from whence.interpreters.cpython_layout import COOKIE, field_names

if TYPE_CHECKING:
    from collections.abc import Mapping

# offsets of a made-up build, small and without overlaps; `_Py_DebugOffsets` tells them
FIELDS = {
    "runtime_state.interpreters_head": 1000,
    "interpreter_state.id": 8,
    "interpreter_state.next": 16,
    "interpreter_state.threads_head": 24,
    "interpreter_state.ceval_gil": 32,
    "interpreter_state.gil_runtime_state": 100,
    "interpreter_state.gil_runtime_state_holder": 108,
    "interpreter_state.gil_runtime_state_locked": 116,
    "thread_state.next": 8,
    "thread_state.interp": 16,
    "thread_state.current_frame": 24,
    "thread_state.thread_id": 32,
    "thread_state.native_thread_id": 40,
    "interpreter_frame.executable": 0,
    "interpreter_frame.previous": 8,
    "interpreter_frame.instr_ptr": 16,
    "interpreter_frame.owner": 24,
    "code_object.filename": 16,
    "code_object.name": 24,
    "code_object.qualname": 32,
    "code_object.linetable": 40,
    "code_object.firstlineno": 48,
    "code_object.co_code_adaptive": 56,
    "pyobject.ob_type": 8,
    "type_object.tp_name": 24,
    "bytes_object.ob_size": 16,
    "bytes_object.ob_sval": 32,
    "unicode_object.state": 32,
    "unicode_object.length": 16,
    "unicode_object.asciiobject_size": 40,
}
RUNTIME, INTERPRETER, THREAD, GIL, TYPE, CODES, HEAP, STACK = (
    0x10000, 0x20000, 0x30000, 0x38000, 0x40000, 0x50000, 0x60000, 0x7FFF00000,
)  # fmt: skip
SHIM, PLAIN, GENERATOR = 3, 0, 1  # owners of frames


def debug_offsets(
    version: int, fields: Mapping[str, int], *, free_threaded: bool = False, order: str = "little"
) -> bytes:
    """Return `_Py_DebugOffsets` of a version: offsets of `fields`, other ones are 0."""
    names = field_names(version >> 16 & 255)
    sign = "<" if order == "little" else ">"
    numbers = [fields.get(name, 0) for name in names]
    return COOKIE + struct.pack(f"{sign}{len(numbers) + 2}Q", version, free_threaded, *numbers)


class CpythonMemory:
    """Memory of one interpreter with one thread, to be filled in. `bytes()` by address: `segments`."""

    def __init__(self, version: int = 0x30D00F0, *, tid: int = 7, fields: Mapping[str, int] = FIELDS) -> None:
        self.fields = {**FIELDS, **fields}
        self.areas = {
            start: bytearray(0x8000) for start in (RUNTIME, INTERPRETER, THREAD, GIL, TYPE, CODES, HEAP, STACK)
        }
        table = debug_offsets(version, self.fields)
        self.areas[RUNTIME][: len(table)] = table
        self._next_object = HEAP
        self._next_code = CODES
        self.put(RUNTIME + self.fields["runtime_state.interpreters_head"], INTERPRETER)
        self.field(INTERPRETER, "interpreter_state.threads_head", THREAD)
        self.field(INTERPRETER, "interpreter_state.ceval_gil", GIL)
        self.field(THREAD, "thread_state.interp", INTERPRETER)
        self.field(THREAD, "thread_state.native_thread_id", tid)
        self.put(GIL + 8, THREAD)
        self.put(GIL + 16, 1)
        self.put(TYPE + self.fields["type_object.tp_name"], TYPE + 0x100)
        self.areas[TYPE][0x100:0x105] = b"code\0"

    def put(self, address: int, value: int) -> None:
        """Write a number of 64 bits."""
        start = max(start for start in self.areas if start <= address)
        self.areas[start][address - start : address - start + 8] = struct.pack("<Q", value & (1 << 64) - 1)

    def word(self, address: int) -> int:
        """Return a number of 64 bits."""
        return int.from_bytes(self.read(address, 8), "little")

    def field(self, address: int, name: str, value: int) -> None:
        """Write a field of a structure."""
        self.put(address + self.fields[name], value)

    def text(self, value: str) -> int:
        """Add a string object. Return its address."""
        address = self._next_object
        self._next_object += 40 + len(value) + 16 & -8
        self.field(address, "unicode_object.length", len(value))
        self.field(address, "unicode_object.state", 1 << 5 | 1 << 6 | 1 << 2)
        self.areas[HEAP][address - HEAP + 40 : address - HEAP + 40 + len(value)] = value.encode()
        return address

    def content(self, value: bytes) -> int:
        """Add a bytes object. Return its address."""
        address = self._next_object
        self._next_object += 32 + len(value) + 16 & -8
        self.field(address, "bytes_object.ob_size", len(value))
        self.areas[HEAP][address - HEAP + 32 : address - HEAP + 32 + len(value)] = value
        return address

    def code(self, name: str, file: str = "/app.py", first_line: int = 1) -> int:
        """Add a code object. Return its address."""
        address = self._next_code
        self._next_code += 0x100
        self.field(address, "pyobject.ob_type", TYPE)
        for field, value in (("qualname", name), ("name", name), ("filename", file)):
            self.field(address, f"code_object.{field}", self.text(value))
        self.field(address, "code_object.linetable", self.content(bytes([0x80 | 11 << 3 | 7, 4, 5])))
        self.field(address, "code_object.firstlineno", first_line)
        return address

    def frame(self, address: int, code: int, previous: int, owner: int = PLAIN) -> int:
        """Write a frame at an address. Return the address."""
        self.field(address, "interpreter_frame.executable", code)
        self.field(address, "interpreter_frame.previous", previous)
        start = code + self.fields["code_object.co_code_adaptive"]
        self.field(address, "interpreter_frame.instr_ptr", start + 2)
        self.field(address, "interpreter_frame.owner", owner)
        return address

    def chain(self, names: str) -> None:
        """Write a chain of frames, innermost first: a letter is a function's name, "|" an entry shim."""
        previous, shim = 0, STACK + 0x7000
        location = HEAP + 0x4000
        for letter in reversed(names):
            if letter == "|":
                previous = self.frame(shim, 0, previous, SHIM)
                shim -= 0x100
            else:
                previous = self.frame(location, self.code(letter), previous)
                location += 0x40
        self.field(THREAD, "thread_state.current_frame", previous)

    @property
    def segments(self) -> list[tuple[int, bytes]]:
        return [(start, bytes(data)) for start, data in sorted(self.areas.items())]

    def read(self, address: int, size: int) -> bytes:
        """Return memory, as unwind.memory.Memory. Raises Unreadable."""
        from whence.unwind.memory import Unreadable

        for start, data in self.areas.items():
            if start <= address and address + size <= start + len(data):
                return bytes(data[address - start : address - start + size])
        raise Unreadable(address)


ASYNCIO_FIELDS = {
    "interpreter_frame.stackpointer": 32,
    "gen_object.gi_iframe": 24,
    "gen_object.gi_frame_state": 16,
    "type_object.tp_name": 24,
}
TASK_NAME, TASK_AWAITED_BY, TASK_AWAITED_BY_IS_SET, TASK_CORO, NODE, TASKS_HEAD = 16, 24, 32, 40, 48, 0x200
AWAITING, RETURNED = -1, 1  # states of a coroutine of 3.14


class AsyncioMemory(CpythonMemory):
    """Memory of one interpreter of CPython 3.14 with tasks of asyncio. `table` is the section `.AsyncioDebug`."""

    table = RUNTIME + 0x2000

    def __init__(self) -> None:
        super().__init__(0x30E00F0, fields=ASYNCIO_FIELDS)
        self._types: dict[str, int] = {}
        self._last = THREAD + TASKS_HEAD
        task = (64, TASK_NAME, TASK_AWAITED_BY, 0, TASK_AWAITED_BY_IS_SET, TASK_CORO, NODE)
        for index, number in enumerate((*task, 8, TASKS_HEAD, 8, 0, 0, TASKS_HEAD)):
            self.put(self.table + 8 * index, number)
        for head in (THREAD + TASKS_HEAD, INTERPRETER + TASKS_HEAD):
            self.put(head, head)

    def object(self, type_name: str, *words: int) -> int:
        """Add an object with fields. Return its address."""
        if type_name not in self._types:
            kind = self._types[type_name] = TYPE + 0x200 + 0x80 * len(self._types)
            self.put(kind + 24, kind + 0x40)
            self.areas[TYPE][kind + 0x40 - TYPE : kind + 0x41 - TYPE + len(type_name)] = type_name.encode() + b"\0"
        address = self._next_object
        self._next_object += 0x80
        self.field(address, "pyobject.ob_type", self._types[type_name])
        for index, word in enumerate(words):
            self.put(address + 16 + 8 * index, word)
        return address

    def coroutine(self, name: str, awaited: int) -> int:
        """Add a coroutine that awaits an object, or that was suspended otherwise (0). Return its address."""
        address = self.object("coroutine", (AWAITING if awaited else AWAITING - 1) & 0xFF)
        frame = address + self.fields["gen_object.gi_iframe"]
        self.frame(frame, self.code(name), 0, GENERATOR)
        self.field(frame, "interpreter_frame.stackpointer", address + 0x78)
        self.put(self.awaited_field(address), awaited)
        return address

    def awaited_field(self, coroutine: int) -> int:
        """Return the address of the word with what a coroutine awaits."""
        return coroutine + 0x70

    def task(self, name: str, coroutine: int) -> int:
        """Add a task to the list of the thread. Return its address."""
        address = self.object("_asyncio.Task", self.text(name), 0, 0, coroutine, THREAD + TASKS_HEAD)
        self.put(self._last, address + NODE)
        self._last = address + NODE
        return address
