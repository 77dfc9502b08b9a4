"""Objects of CPython: words, types, dicts, sets, and attributes of instances.

Of dicts, sets and instances only what tasks need: 3.7 to 3.13, without free-threaded builds. The fields of objects do
not depend on the build, so that their offsets are known where `_Py_DebugOffsets` does not have them (Include/cpython/
object.h, dictobject.h, setobject.h, Include/internal/pycore_dict.h).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from whence.interpreters.cpython_code import InvalidObject
from whence.unwind.memory import Unreadable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from whence._base.window import ByteOrder
    from whence.interpreters.cpython_code import CodeReader, Read
    from whence.interpreters.cpython_layout import CpythonLayout

OBJECT_OFFSETS = {
    "dict_object.ma_keys": 32, "dict_object.ma_values": 40, "set_object.mask": 32, "set_object.table": 40,
    "weak_reference.object": 16, "module_object.dict": 16, "type_object.tp_basicsize": 32, "type_object.tp_flags": 168,
    "type_object.tp_base": 256, "type_object.tp_dictoffset": 288, "long_object.ob_digit": 24,
}  # fmt: skip
MODULES = {  # `modules` of an interpreter; then in a table
    (3, 7): 40, (3, 8): 56, (3, 9): 856, (3, 10): 856, (3, 11): 888, (3, 12): 944,
}  # fmt: skip
CACHED_KEYS = {(3, 11): 872, (3, 12): 880, (3, 13): 880}  # ht_cached_keys in a PyHeapTypeObject
INLINE_VALUES, MANAGED_DICT = 1 << 2, 1 << 4  # tp_flags: of 3.13, and from 3.11 on
DICT_WORDS, VALUES_WORDS = 3, 4  # words before an instance with a managed dict: to the dict, to its values (3.11)
VALUES_HEAD = 8  # bytes before values (3.13)
KEYS_HEAD = 32  # bytes of a dict's keys before the indices; 40 before 3.11
ENTRIES_LIMIT = 1 << 17  # of a dict or set
BASES_LIMIT = 100
TYPE_NAME_BYTES = 64
SLOT_BYTES = 16  # of a set: key and hash
DIGIT_BITS = 30
DIGITS_LIMIT = 3


class ObjectReader:
    """Reads objects of one runtime. Methods raise Unreadable and InvalidObject."""

    def __init__(
        self, layout: CpythonLayout, order: ByteOrder, codes: CodeReader, read: Read, fields: Mapping[str, int]
    ) -> None:
        """Prepare to read.

        Args:
            codes: decodes strings.
            read: returns memory; raises Unreadable.
            fields: offsets that the layout does not have.
        """
        self.version, self.order, self._codes, self.read = layout.version, order, codes, read
        self.fields = {**OBJECT_OFFSETS, **layout.fields, **fields}
        if layout.version in MODULES:
            self.fields["interpreter_state.imports_modules"] = MODULES[layout.version]
        self.head = layout.fields["pyobject.ob_type"] + 8  # bytes of an object before its own fields
        self._type_names: dict[int, str] = {}

    def word(self, address: int) -> int:
        return int.from_bytes(self.read(address, 8), self.order)

    def number(self, address: int, size: int) -> int:
        """Return a signed number."""
        return int.from_bytes(self.read(address, size), self.order, signed=True)

    def field(self, address: int, name: str) -> int:
        """Return a field of 64 bits of a structure."""
        return self.word(address + self.fields[name])

    def type_name(self, address: int) -> str:
        """Return the name of an object's type, "" if the name is not readable."""
        kind = self.field(address, "pyobject.ob_type")
        name = self._type_names.get(kind)
        if name is None:
            name = ""
            with suppress(Unreadable):
                start = self.field(kind, "type_object.tp_name")
                for size in (TYPE_NAME_BYTES, 8):  # a short one may be the last of readable memory
                    with suppress(Unreadable):
                        name = self.read(start, size).partition(b"\0")[0].decode("utf-8", "replace")
                        break
            self._type_names[kind] = name
        return name

    def base_names(self, address: int) -> Iterator[str]:
        """Yield the names of an object's type and of its bases, as far as each type's first base."""
        kind = self.field(address, "pyobject.ob_type")
        for _ in range(BASES_LIMIT):
            if not kind:
                return
            name = self.read(self.field(kind, "type_object.tp_name"), TYPE_NAME_BYTES)
            yield name.partition(b"\0")[0].decode("utf-8", "replace")
            kind = self.field(kind, "type_object.tp_base")

    def text(self, address: int) -> str:
        return self._codes.text(address, self.read)

    def natural(self, address: int) -> int:
        """Return an int that is not negative and has few digits."""
        size, digits = self.word(address + self.head), address + self.fields["long_object.ob_digit"]
        count = size >> 3 if self.version >= (3, 12) else size
        if count > DIGITS_LIMIT:
            raise InvalidObject(f"the int at {address:#x} has {count} digits")
        return sum((self.number(digits + 4 * index, 4) << DIGIT_BITS * index) for index in range(max(count, 1)))

    def set_members(self, address: int) -> list[int]:
        """Return the objects of a set."""
        mask, table = self.field(address, "set_object.mask"), self.field(address, "set_object.table")
        if mask >= ENTRIES_LIMIT:
            raise InvalidObject(f"the set at {address:#x} has {mask + 1} entries")
        data = self.read(table, (mask + 1) * SLOT_BYTES)
        members = []
        for start in range(0, len(data), SLOT_BYTES):
            key = int.from_bytes(data[start : start + 8], self.order)
            if key and data[start + 8 : start + 16] != b"\xff" * 8:  # a removed one has the hash -1
                members.append(key)
        return members

    def entries(self, mapping: int, names: Collection[str]) -> dict[str, int]:
        """Return the entries of a dict whose keys are among some strings."""
        if self.type_name(mapping) != "dict":
            raise InvalidObject(f"the object at {mapping:#x} is not a dict")
        keys, values = self.field(mapping, "dict_object.ma_keys"), self.field(mapping, "dict_object.ma_values")
        if values and self.version >= (3, 13):
            values += VALUES_HEAD
        return {
            name: self.word(values + 8 * index) if values else value
            for index, name, value in self._key_entries(keys, names)
        }

    def members(self, interpreter: int, module: str, names: Collection[str]) -> dict[str, int]:
        """Return members of an imported module by name; none if the interpreter has not imported it."""
        modules = self.field(interpreter, "interpreter_state.imports_modules")
        address = self.entries(modules, [module]).get(module) if modules else None
        return {} if address is None else self.entries(self.field(address, "module_object.dict"), names)

    def attribute(self, instance: int, name: str) -> int:
        """Return an attribute of an instance of a Python class, 0 if it does not have it."""
        kind = self.field(instance, "pyobject.ob_type")
        flags = self.field(kind, "type_object.tp_flags")
        values = mapping = 0
        if self.version < (3, 11):
            mapping = self.word(instance + self.field(kind, "type_object.tp_dictoffset"))
        elif flags & MANAGED_DICT:
            mapping = self.word(instance - 8 * DICT_WORDS)
            if self.version == (3, 11):
                values = self.word(instance - 8 * VALUES_WORDS)
            elif self.version == (3, 12) and mapping & 1:  # a pointer to values, less 1
                mapping, values = 0, mapping + 1
            elif self.version == (3, 13) and flags & INLINE_VALUES:
                values = instance + self.field(kind, "type_object.tp_basicsize") + VALUES_HEAD
        if mapping:
            return self.entries(mapping, [name]).get(name, 0)
        if values:
            for index, _, _ in self._key_entries(self.word(kind + CACHED_KEYS[self.version]), [name]):
                return self.word(values + 8 * index)
        return 0

    def items(self, mapping: int) -> list[tuple[int, int]]:
        """Return the addresses of keys and values of a dict without shared keys."""
        if self.type_name(mapping) != "dict":
            raise InvalidObject(f"the object at {mapping:#x} is not a dict")
        keys = self.field(mapping, "dict_object.ma_keys")
        return [(key, value) for _, key, value in self._all_entries(keys) if value]

    def _key_entries(self, keys: int, names: Collection[str]) -> Iterator[tuple[int, str, int]]:
        """Yield index, key and value of the entries of a dict's keys whose keys are among some strings."""
        lengths = {len(name) for name in names}
        for index, key, value in self._all_entries(keys):
            with suppress(Unreadable, InvalidObject):
                if self.field(key, "unicode_object.length") in lengths and self.type_name(key) == "str":
                    name = self.text(key)
                    if name in names:
                        yield index, name, value

    def _all_entries(self, keys: int) -> Iterator[tuple[int, int, int]]:
        """Yield index, key and value of the entries of a dict's keys."""
        head = self.read(keys, KEYS_HEAD + 8)
        if self.version < (3, 11):
            size, count = int.from_bytes(head[8:16], self.order), int.from_bytes(head[32:40], self.order)
            width = next(width for width in (1, 2, 4, 8) if size < 1 << 8 * width)
            start, step = keys + KEYS_HEAD + 8 + size * width, 24
        else:
            count = int.from_bytes(head[24:32], self.order)
            start, step = keys + KEYS_HEAD + (1 << min(head[9], 32)), 16 if head[10] else 24
        if count > ENTRIES_LIMIT:
            raise InvalidObject(f"the dict's keys at {keys:#x} are {count}")
        table = self.read(start, count * step)
        for index in range(count):
            entry = table[index * step : (index + 1) * step]
            key = int.from_bytes(entry[-16:-8], self.order)
            if key:
                yield index, key, int.from_bytes(entry[-8:], self.order)
