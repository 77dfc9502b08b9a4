"""Where CPython's structures have their fields, by version.

From 3.13 on, `_PyRuntime` begins with `_Py_DebugOffsets`: a cookie, the version, whether the build is free-threaded,
and offsets as 64-bit numbers. The table has no length and no version of its own: its fields are known by the minor
version alone (DEBUG_FIELDS).

Earlier versions have no table. OLD_OFFSETS has the offsets of 64-bit builds, from the headers of 3.7.16, 3.8.18,
3.9.18, 3.10.13, 3.11.7 and 3.12.1 (Include/cpython/pystate.h, Include/cpython/code.h, Include/internal/pycore_frame.h,
pycore_runtime.h, pycore_interp.h, pycore_gil.h), compiled by gcc for x86-64. They did not change within these minor
versions, and Py_DEBUG does not change them.
"""

from __future__ import annotations

import re
from array import array
from typing import TYPE_CHECKING, NamedTuple

from whence.interpreters.kernels import cpython as kernel

if TYPE_CHECKING:
    from whence._base.window import ByteOrder

COOKIE = b"xdebugpy"
OLDEST, NEWEST = (3, 7), (3, 15)
SUPPORTED = ".".join(map(str, OLDEST)) + " to " + ".".join(map(str, NEWEST))
FIRST_TABLE = (3, 13)  # version with _Py_DebugOffsets
TABLE_BYTES = {(3, 13): 584, (3, 14): 760, (3, 15): 888}
FINAL_LEVEL = 0xF  # PY_RELEASE_LEVEL_FINAL
ABSENT = kernel.LAYOUT_ABSENT

# Groups of _Py_DebugOffsets after the cookie, version and free_threaded. "+14" and "+15": since that minor version.
DEBUG_FIELDS = """
runtime_state: size finalizing interpreters_head
interpreter_state: size id next threads_head threads_main+14 gc imports_modules sysdict builtins ceval_gil
    gil_runtime_state gil_runtime_state_enabled gil_runtime_state_locked gil_runtime_state_holder
    code_object_generation+14 tlbc_generation+14
thread_state: size prev next interp current_frame base_frame+15 last_profiled_frame+15 last_profiled_frame_seq+15
    thread_id native_thread_id datastack_chunk status holds_gil+15 gil_requested+15 current_exception+15 exc_state+15
err_stackitem+15: exc_value
interpreter_frame: size previous executable instr_ptr localsplus owner stackpointer+14 tlbc_index+14
code_object: size filename name qualname linetable firstlineno argcount localsplusnames localspluskinds
    co_code_adaptive co_tlbc+14
pyobject: size ob_type
type_object: size tp_name tp_repr tp_flags tp_basicsize+15 tp_dictoffset+15
heap_type_object+15: size ht_cached_keys
tuple_object: size ob_item ob_size
list_object: size ob_item ob_size
set_object+14: size used table mask
dict_object: size ma_keys ma_values
float_object: size ob_fval
long_object: size lv_tag ob_digit
bytes_object: size ob_size ob_sval
unicode_object: size state length asciiobject_size compactunicodeobject_size+15
gc: size collecting frame+15 generation_stats_size+15 generation_stats+15
gen_object+14: size gi_name gi_iframe gi_frame_state
llist_node+14: next prev
debugger_support+14: eval_breaker remote_debugger_support remote_debugging_enabled debugger_pending_call
    debugger_script_path debugger_script_path_size
"""
HEAD_FIELDS = 3  # cookie, version, free_threaded

OFFSETS_3_9 = {
    "runtime_state.interpreters_head": 32, "runtime_state.main": 40, "runtime_state.gil": 360, "gil.holder": 0,
    "gil.locked": 8, "interpreter_state.next": 0, "interpreter_state.id": 24, "interpreter_state.threads_head": 8,
    "thread_state.next": 8, "thread_state.interp": 16, "thread_state.thread_id": 176,
    "thread_state.current_frame": 24, "interpreter_frame.previous": 24, "interpreter_frame.executable": 32,
    "interpreter_frame.instr_ptr": 104, "code_object.filename": 104, "code_object.name": 112,
    "code_object.linetable": 120, "code_object.firstlineno": 40, "code_object.co_code_adaptive": 0,
}  # fmt: skip
OLD_OFFSETS: dict[tuple[int, int], dict[str, int]] = {
    (3, 7): {
        **OFFSETS_3_9, "runtime_state.interpreters_head": 24, "runtime_state.main": 32, "runtime_state.gil": 1272,
        "interpreter_state.id": 16, "code_object.filename": 96, "code_object.name": 104, "code_object.linetable": 112,
        "code_object.firstlineno": 36,
    },
    (3, 8): {**OFFSETS_3_9, "runtime_state.gil": 1160, "interpreter_state.id": 16},
    (3, 9): OFFSETS_3_9,
    (3, 10): {
        **OFFSETS_3_9, "thread_state.cframe": 48, "cframe.previous": 8, "interpreter_frame.instr_ptr": 96,
    },
    (3, 11): {
        "runtime_state.interpreters_head": 40, "runtime_state.main": 48, "runtime_state.gil": 368, "gil.holder": 0,
        "gil.locked": 8, "interpreter_state.next": 0, "interpreter_state.id": 48, "interpreter_state.threads_head": 16,
        "thread_state.next": 8, "thread_state.interp": 16, "thread_state.thread_id": 152,
        "thread_state.native_thread_id": 160, "thread_state.cframe": 56, "cframe.current_frame": 8,
        "cframe.previous": 16, "interpreter_frame.previous": 48, "interpreter_frame.executable": 32,
        "interpreter_frame.instr_ptr": 56, "interpreter_frame.is_entry": 68, "interpreter_frame.owner": 69,
        "code_object.filename": 112, "code_object.name": 120, "code_object.qualname": 128,
        "code_object.linetable": 136, "code_object.firstlineno": 72, "code_object.co_code_adaptive": 184,
    },
    (3, 12): {
        "runtime_state.interpreters_head": 40, "runtime_state.main": 48, "interpreter_state.ceval_gil": 384,
        "gil.holder": 8, "gil.locked": 16, "interpreter_state.next": 0, "interpreter_state.id": 8,
        "interpreter_state.threads_head": 72, "thread_state.next": 8, "thread_state.interp": 16,
        "thread_state.thread_id": 136, "thread_state.native_thread_id": 144, "thread_state.cframe": 56,
        "cframe.current_frame": 0, "cframe.previous": 8, "interpreter_frame.previous": 8,
        "interpreter_frame.executable": 0, "interpreter_frame.instr_ptr": 56, "interpreter_frame.owner": 70,
        "code_object.filename": 112, "code_object.name": 120, "code_object.qualname": 128,
        "code_object.linetable": 136, "code_object.firstlineno": 68, "code_object.co_code_adaptive": 192,
    },
}  # fmt: skip
OLD_OBJECTS = {
    "pyobject.ob_type": 8, "type_object.tp_name": 24, "bytes_object.ob_size": 16, "bytes_object.ob_sval": 32,
    "unicode_object.length": 16, "unicode_object.state": 32,
}  # fmt: skip
OLD_ASCII, ASCII_3_12 = (48, 72), (40, 56)  # bytes before a string's text: up to 3.11, in 3.12

# the kernel's numbers by the names of fields
NUMBERS = {
    kernel.LAYOUT_INTERPRETERS: "runtime_state.interpreters_head",
    kernel.LAYOUT_INTERPRETER_NEXT: "interpreter_state.next",
    kernel.LAYOUT_INTERPRETER_ID: "interpreter_state.id",
    kernel.LAYOUT_THREADS: "interpreter_state.threads_head",
    kernel.LAYOUT_THREAD_NEXT: "thread_state.next",
    kernel.LAYOUT_THREAD_INTERPRETER: "thread_state.interp",
    kernel.LAYOUT_THREAD_ID: "thread_state.thread_id",
    kernel.LAYOUT_NATIVE_ID: "thread_state.native_thread_id",
    kernel.LAYOUT_TOP_FRAME: "thread_state.current_frame",
    kernel.LAYOUT_CFRAME: "thread_state.cframe",
    kernel.LAYOUT_CFRAME_PREVIOUS: "cframe.previous",
    kernel.LAYOUT_CFRAME_TOP: "cframe.current_frame",
    kernel.LAYOUT_BASE_FRAME: "thread_state.base_frame",
    kernel.LAYOUT_FRAME_PREVIOUS: "interpreter_frame.previous",
    kernel.LAYOUT_FRAME_CODE: "interpreter_frame.executable",
    kernel.LAYOUT_FRAME_POSITION: "interpreter_frame.instr_ptr",
    kernel.LAYOUT_FRAME_OWNER: "interpreter_frame.owner",
    kernel.LAYOUT_FRAME_ENTRY: "interpreter_frame.is_entry",
    kernel.LAYOUT_FRAME_TLBC: "interpreter_frame.tlbc_index",
    kernel.LAYOUT_CODE_START: "code_object.co_code_adaptive",
    kernel.LAYOUT_CODE_TLBC: "code_object.co_tlbc",
    kernel.LAYOUT_GIL: "interpreter_state.ceval_gil",
    kernel.LAYOUT_RUNTIME_GIL: "runtime_state.gil",
    kernel.LAYOUT_GIL_HOLDER: "gil.holder",
    kernel.LAYOUT_GIL_LOCKED: "gil.locked",
}
STYLE_FIELDS = {
    kernel.STYLE_FRAME_OBJECTS: [],
    kernel.STYLE_ENTRY_FLAGS: [kernel.LAYOUT_FRAME_ENTRY],
    kernel.STYLE_SHIMS: [kernel.LAYOUT_FRAME_OWNER],
}
FRAME_NUMBERS = [number for number, name in NUMBERS.items() if name.startswith("interpreter_frame.")]
MAY_BE_ZERO = frozenset({  # offsets; of the others, 0 says that the build does not have the field
    "interpreter_frame.executable", "interpreter_state.next", "interpreter_state.id", "thread_state.prev",
    "code_object.co_code_adaptive", "gil.holder", "cframe.current_frame", "llist_node.next", "interpreter_state.size",
})  # fmt: skip
LONGEST_OFFSET = 1 << 20
HEADER_LIMIT = 512


class StringLayout(NamedTuple):
    """The layout of compact strings: offsets, and positions of bits in `state`."""

    length: int
    state: int
    ascii_header: int
    compact_header: int
    kind_bit: int
    compact_bit: int
    ascii_bit: int


class CpythonLayout(NamedTuple):
    """The layout of one version: fields by "group.name", and what else differs.

    `numbers` are the kernel's. `is_verified` is False for alphas, betas and release candidates with a table, whose
    fields may differ from those of the final release.
    """

    version: tuple[int, int]
    release: str  # such as 3.13.0
    is_free_threaded: bool
    is_verified: bool
    fields: dict[str, int]
    numbers: array[int]
    strings: StringLayout

    @property
    def title(self) -> str:
        """Name and version for people."""
        return f"CPython {self.release}{' free-threaded' if self.is_free_threaded else ''}"

    @property
    def header_bytes(self) -> int:
        """Bytes of a code object that contain its fields."""
        size: int = self.numbers[kernel.LAYOUT_HEADER]
        return size


class UnknownLayout(Exception):
    """The version is not supported, or its table is damaged: the text says which."""


def release_of(version: int) -> str:
    """Return the text of a PY_VERSION_HEX.

    >>> release_of(0x30D12F0), release_of(0x30E00B2)
    ('3.13.18', '3.14.0b2')
    """
    level, serial = version >> 4 & 15, version & 15
    suffix = {0xA: "a", 0xB: "b", 0xC: "rc"}.get(level, "")
    return f"{version >> 24}.{version >> 16 & 255}.{version >> 8 & 255}{f'{suffix}{serial}' if suffix else ''}"


def field_names(minor: int) -> list[str]:
    """Return the fields of _Py_DebugOffsets after its head, in order, as "group.name"."""
    names: list[str] = []
    group, since = "", 0
    for word in DEBUG_FIELDS.split():
        name, _, added = word.rstrip(":").partition("+")
        if word.endswith(":"):
            group, since = name, int(added or 0)
        elif max(since, int(added or 0)) <= minor:
            names.append(f"{group}.{name}")
    return names


def read_debug_offsets(data: bytes, order: ByteOrder) -> CpythonLayout:
    """Return the layout of a runtime from 3.13 on by its first bytes. Raises UnknownLayout."""
    if not data.startswith(COOKIE) or len(data) < 8 * HEAD_FIELDS:
        raise UnknownLayout("the runtime does not begin with _Py_DebugOffsets")
    version, free_threaded = (int.from_bytes(data[start : start + 8], order) for start in (8, 16))
    release, minor = release_of(version), version >> 16 & 255
    if (version >> 24, minor) not in TABLE_BYTES or version >> 32:
        supported = ", ".join(f"{major}.{number}" for major, number in TABLE_BYTES)
        raise UnknownLayout(f"CPython {release} is not a supported version (with a table: {supported})")
    names = field_names(minor)
    table = data[8 * HEAD_FIELDS :]
    if len(table) < 8 * len(names):
        raise UnknownLayout(f"_Py_DebugOffsets of CPython {release} is cut off")
    fields = {name: int.from_bytes(table[8 * i : 8 * i + 8], order) for i, name in enumerate(names)}
    for name, offset in fields.items():
        if offset >= LONGEST_OFFSET:
            raise UnknownLayout(f"_Py_DebugOffsets of CPython {release} is damaged: {name} is {offset:#x}")
    gil = fields["interpreter_state.gil_runtime_state"]
    fields["gil.holder"] = fields["interpreter_state.gil_runtime_state_holder"] - gil
    fields["gil.locked"] = fields["interpreter_state.gil_runtime_state_locked"] - gil
    if min(fields["gil.holder"], fields["gil.locked"]) < 0:
        raise UnknownLayout(f"_Py_DebugOffsets of CPython {release} is damaged: the GIL begins at {gil:#x}")
    is_free = bool(free_threaded)
    ascii_header = fields["unicode_object.asciiobject_size"]
    compact = fields.get("unicode_object.compactunicodeobject_size") or ascii_header + 16
    fields["unicode_object.compactunicodeobject_size"] = compact
    wide_state = is_free and minor >= 14  # `interned` is a byte of its own
    bits = (8, 11, 12) if wide_state else (2, 5, 6)
    strings = StringLayout(
        fields["unicode_object.length"], fields["unicode_object.state"], ascii_header, compact, *bits
    )
    is_verified = version >> 4 & 15 == FINAL_LEVEL
    tags = 0 if minor < 14 else 1 if is_free else 3
    return _layout((3, minor), release, fields, strings, tags, kernel.STYLE_SHIMS, is_free, is_verified)


def old_layout(version: tuple[int, int], release: str) -> CpythonLayout:
    """Return the layout of 3.7 to 3.12. Raises UnknownLayout for other versions."""
    if version not in OLD_OFFSETS:
        raise UnknownLayout(f"CPython {release} is not a supported version ({SUPPORTED})")
    fields = {**OLD_OBJECTS, **OLD_OFFSETS[version]}
    ascii_header, compact = ASCII_3_12 if version == (3, 12) else OLD_ASCII
    fields["unicode_object.asciiobject_size"] = ascii_header
    strings = StringLayout(16, 32, ascii_header, compact, 2, 5, 6)
    style = kernel.STYLE_SHIMS
    if version < (3, 12):
        style = kernel.STYLE_ENTRY_FLAGS if version == (3, 11) else kernel.STYLE_FRAME_OBJECTS
    return _layout(version, release, fields, strings, 0, style, False, True)


def _layout(
    version: tuple[int, int],
    release: str,
    fields: dict[str, int],
    strings: StringLayout,
    tags: int,
    style: int,
    is_free: bool,
    is_verified: bool,
) -> CpythonLayout:
    numbers = array("Q", [ABSENT]) * kernel.LAYOUT_NUMBERS
    for number, name in NUMBERS.items():
        offset = fields.get(name)
        if offset is not None and (offset or name in MAY_BE_ZERO or version < FIRST_TABLE):
            numbers[number] = offset
    last = max(fields.get(f"code_object.{name}", 0) for name in ("filename", "name", "qualname", "linetable"))
    header = (last + 16) & -8
    if header > HEADER_LIMIT:
        raise UnknownLayout(f"_Py_DebugOffsets of CPython {release} is damaged: a code object has {header} bytes")
    needed = [
        kernel.LAYOUT_FRAME_CODE,
        kernel.LAYOUT_FRAME_PREVIOUS,
        kernel.LAYOUT_FRAME_POSITION,
        *STYLE_FIELDS[style],
    ]
    for number in needed:
        if numbers[number] == ABSENT:
            raise UnknownLayout(f"_Py_DebugOffsets of CPython {release} is damaged: {NUMBERS[number]} is 0")
    frame = max(numbers[number] + 8 for number in FRAME_NUMBERS if numbers[number] != ABSENT)
    if frame > HEADER_LIMIT:
        raise UnknownLayout(f"_Py_DebugOffsets of CPython {release} is damaged: a frame has {frame} bytes")
    numbers[kernel.LAYOUT_FRAME_BYTES] = frame
    numbers[kernel.LAYOUT_STYLE], numbers[kernel.LAYOUT_TAGS], numbers[kernel.LAYOUT_HEADER] = style, tags, header
    return CpythonLayout(version, release, is_free, is_verified, fields, numbers, strings)


VERSION_TEXT = re.compile(rb"(?<![0-9.])3\.([7-9]|1[0-2])\.([0-9]{1,2})(\+|(?:a|b|rc)[0-9]+)?\0")
NAME_TEXT = re.compile(r"python3\.?([0-9]{1,2})(?![0-9])")


def release_by_strings(data: bytes | memoryview) -> str:
    """Return PY_VERSION by a file's strings, for versions without `Py_Version`; "" if it is missing or ambiguous."""
    versions = {match[0][:-1].rstrip(b"+").decode() for match in VERSION_TEXT.finditer(data)}
    return versions.pop() if len(versions) == 1 else ""


def version_by_name(path: str) -> tuple[int, int] | None:
    """Return the version in the name of an interpreter or of its library.

    >>> version_by_name("/usr/lib/libpython3.10.so.1.0"), version_by_name("/usr/bin/python3")
    ((3, 10), None)
    """
    match = NAME_TEXT.search(path.rsplit("/", 1)[-1])
    return (3, int(match[1])) if match else None
