"""Values from bytes: a type and a storage in, a Value out.

Bounded in every direction: depth, elements of arrays, characters of strings, parts of one variable, and all parts
together. What is left out is marked in the value.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from whence._base.records import Record
from whence.dwarf.kernels import constants
from whence.types.locating import calculate
from whence.types.model import Field, Language, Member, Type, TypeKind, Value, ValueKind
from whence.types.storage import NoValue, Piece, Storage
from whence.types.text import (
    REPEATS,
    WIDE,
    WIDTHS,
    characters_of,
    enumeration_text,
    float_text,
    integer_text,
    joined,
    missing_text,
    string_text,
)

if TYPE_CHECKING:
    from whence._base.window import ByteOrder
    from whence.types.locating import Surroundings
    from whence.unwind.memory import Memory

CHUNK = 256  # bytes of a string that are read at once
UNSIGNED = (
    constants.DW_ATE_boolean, constants.DW_ATE_address, constants.DW_ATE_unsigned, constants.DW_ATE_unsigned_char,
    constants.DW_ATE_UTF,
)  # fmt: skip
INTEGERS = (TypeKind.INTEGER, TypeKind.CHARACTER, TypeKind.BOOLEAN)
TOO_MANY = "the process has too many values"
SCALARS_KEPT, ARRAYS_KEPT = 4096, 256  # with the texts that pointers point to
FORMATS = {1: "b", 2: "h", 4: "i", 8: "q"}  # of signed integers
POINTER_SIZES = (4, 8)


class Limits(Record, frozen=True):
    """How much of values is read.

    `elements` of an array or container, `characters` of a string, `depth` of structures in structures, `parts` of one
    variable, `size` of an array in bytes.
    """

    elements: int = 200
    characters: int = 200
    depth: int = 20
    parts: int = 4000
    size: int = 1 << 16


class Budget:
    """The bound of all values of a process, in parts and bytes read."""

    def __init__(self, parts: int) -> None:
        self.left = parts

    def spend(self, cost: int) -> None:
        """Raise NoValue if more was spent than there is."""
        self.left -= cost
        if self.left < 0:
            raise NoValue(TOO_MANY)


class Decoder:
    """Decodes values of one process.

    Args:
        memory: the process's memory.
        order: its byte order.
        bits: size of its addresses.
        symbol: returns the name of the function or object at a runtime address, as `name` or `name+8`; "" if unknown.
        limits: how much is read.
        budget: what all values may cost.
        runtime_type: returns the type of Go that a runtime type at an address describes; None if unknown.
        container: returns the value of a container or smart pointer of a language's library; None for other types.
    """

    def __init__(
        self, memory: Memory, order: ByteOrder, bits: int, symbol: Callable[[int], str],
        runtime_type: Callable[[int], Type | None], limits: Limits, budget: Budget,
        container: Callable[[Decoder, Type, Storage, int], Value | None],
    ) -> None:  # fmt: skip
        self.memory, self.order, self.bits, self.symbol = memory, order, bits, symbol
        self.runtime_type = runtime_type
        self.limits, self.budget, self._container = limits, budget, container
        self.parts_left = 0
        self._virtual_bases: set[tuple[int, int]] = set()  # key and address of those shown of the variable
        self.surroundings: Surroundings | None = None  # of the variable that is being decoded
        self._scalars: dict[tuple[Type, int], Value] = {}
        self._arrays: dict[tuple[Type, Sequence[int], int], tuple[list[Field], bool, list[str]]] = {}

    def decode(self, type: Type, storage: Storage, surroundings: Surroundings | None = None) -> Value:
        """Return the value of a variable."""
        self.parts_left = self.limits.parts
        self.surroundings = surroundings
        self._virtual_bases.clear()
        return self.value(type, storage.extended(type.plain.size or 0), 0)

    def value(self, type: Type, storage: Storage, depth: int) -> Value:
        """Return the value of a part; a part that has none says why."""
        try:
            self.spend(1)
            return self._value(type, storage, depth)
        except NoValue as error:
            return self.missing(type, str(error))

    def spend(self, cost: int) -> None:
        """Count parts. Raises NoValue if the variable, or all together, has too many."""
        self.budget.spend(cost)
        self.parts_left -= cost
        if self.parts_left < 0:
            raise NoValue(f"the variable has more than {self.limits.parts:,} parts")

    def missing(self, type: Type, reason: str) -> Value:
        """Return the value of something that has none."""
        return Value(ValueKind.MISSING, type.name, missing_text(reason), reason=reason)

    def _value(self, type: Type, storage: Storage, depth: int) -> Value:
        plain = type.plain
        size = plain.size
        if plain.kind is TypeKind.UNKNOWN:
            raise NoValue("its type is unknown")
        if size:
            reason = storage.missing(size)
            if reason:
                raise NoValue(reason)
        decode = DECODERS.get(plain.kind)
        if decode is None:
            text = "nullptr" if "nullptr" in plain.name else "()" if plain.language is Language.RUST else "void"
            return Value(ValueKind.STRUCTURE, type.name, text)
        return decode(self, type, storage, depth)

    # scalars

    def number(self, storage: Storage, size: int, *, signed: bool = False) -> int:
        """Return an integer of `size` bytes. Raises NoValue."""
        return int.from_bytes(storage.read(size), self.order, signed=signed)

    def address(self, storage: Storage) -> int:
        """Return an address. Raises NoValue."""
        return self.number(storage, self.bits // 8)

    def _integer(self, type: Type, storage: Storage, depth: int) -> Value:
        plain = type.plain
        size = plain.size or 0
        if not 0 < size <= 16:
            raise NoValue(f"an integer of {size:,} bytes")
        return self.scalar(type, self.number(storage, size, signed=plain.encoding not in UNSIGNED))

    def integer(self, type: Type, value: int) -> Value:
        """Return an integer as its type shows it."""
        plain = type.plain
        prefix = wide_prefix(type)
        if plain.kind is TypeKind.BOOLEAN:
            text = ("false", "true")[value] if value in (0, 1) else str(value)
            return Value(ValueKind.BOOLEAN, type.name, text, bool(value))
        text = integer_text(value, plain, prefix)
        if prefix and plain.kind is not TypeKind.CHARACTER:
            text = integer_text(value, wide_type(plain), prefix)
        kind = ValueKind.CHARACTER if plain.kind is TypeKind.CHARACTER and plain.size == 1 else ValueKind.NUMBER
        return Value(kind, type.name, text, value)

    def _float(self, type: Type, storage: Storage, depth: int) -> Value:
        plain = type.plain
        size = plain.size or 0
        if size > 16:
            raise NoValue(f"a float of {size:,} bytes")
        data = storage.read(size)
        if plain.kind is TypeKind.COMPLEX:
            half = size // 2
            (real, _), (imaginary, _) = float_text(data[:half], self.order), float_text(data[half:], self.order)
            return Value(ValueKind.NUMBER, type.name, f"{real} + {imaginary}i")
        text, number = float_text(data, self.order)
        if not text or ("128" in plain.name and size == 16):
            raise NoValue(f"a float of {size} bytes is not supported")
        return Value(ValueKind.NUMBER, type.name, text, number)

    def _enumeration(self, type: Type, storage: Storage, depth: int) -> Value:
        plain = type.plain
        size = plain.size or 0
        if not 0 < size <= 16:
            raise NoValue(f"an enumeration of {size:,} bytes")
        return self.enumeration(type, self.number(storage, size))

    def enumeration(self, type: Type, value: int) -> Value:
        """Return a value of an enumeration, by its unsigned number."""
        plain = type.plain
        text, name = enumeration_text(value, plain)
        if plain.language is Language.CPP and name:
            qualified = plain.name if plain.is_scoped else "::".join(plain.scope)
            text = f"{qualified}::{text}" if qualified else text
        return Value(ValueKind.ENUMERATION, type.name, text, value, label=name)

    # pointers

    def _pointer(self, type: Type, storage: Storage, depth: int) -> Value:
        if type.plain.size not in (*POINTER_SIZES, None):
            raise NoValue(f"a pointer of {type.plain.size:,} bytes")
        if type.plain.language is Language.GO and (shown := self._container(self, type, storage, depth)) is not None:
            return shown
        return self.scalar(type, self.number(storage, type.plain.size or self.bits // 8))

    def scalar(self, type: Type, number: int) -> Value:
        """Return a pointer or an integer by its number."""
        key = type, number
        if key not in self._scalars:
            if len(self._scalars) >= SCALARS_KEPT:
                self._scalars.clear()
            is_pointer = type.plain.kind is TypeKind.POINTER
            self._scalars[key] = self.pointer(type, number) if is_pointer else self.integer(type, number)
        return self._scalars[key]

    def pointer(self, type: Type, address: int) -> Value:
        """Return a pointer, with the text that it points to, or the name of the function or object there."""
        target = type.plain.target
        text = f"{address:#x}"
        shown: Value | None = None
        if address and is_text(target) and type.plain.language in (Language.C, Language.CPP):
            shown = self.string_at(address, target)
            return Value(ValueKind.POINTER, type.name, f"{text} {shown.text}", address, target=shown)
        if address and (name := self.symbol(address)):
            return Value(ValueKind.POINTER, type.name, f"{text} <{name}>", address, label=name)
        return Value(ValueKind.POINTER, type.name, text, address)

    def string_at(self, address: int, target: Type) -> Value:
        """Return the text at an address, up to a NUL character or the limit."""
        size = target.plain.size or 1
        limit = self.limits.characters
        data, is_cut = bytearray(), True
        while len(data) < limit * size:
            chunk = min(CHUNK, limit * size - len(data))
            part = self._readable(address + len(data), chunk)
            if len(part) < size:
                break
            end = terminator(part, size)
            data += part if end is None else part[:end]
            if end is not None:
                is_cut = False
                break
            if len(part) < chunk:
                break
        self.budget.spend(len(data) // CHUNK + 1)
        if not data and is_cut:
            reason = f"the memory at {address:#x} cannot be read"
            return Value(ValueKind.MISSING, text=missing_text(reason), reason=reason)
        is_readable = not is_cut or len(data) >= limit * size
        if is_cut and is_readable and self._readable(address + len(data), size) == bytes(size):
            is_cut = False
        text = string_text(characters_of(bytes(data), size, self.order), limit, is_cut=is_cut and is_readable)
        if not is_readable:
            text += missing_text(f"the memory at {address + len(data):#x} cannot be read")
        text = wide_prefix(target) + text if size > 1 else text
        content = decoded(bytes(data), size, self.order)
        length = None if is_cut else len(data) // size
        return Value(ValueKind.STRING, target.name, text, content, length=length, is_cut=is_cut)

    def text_of_length(self, name: str, address: int, length: int, character: Type) -> Value:
        """Return a text at an address, of a known length in characters, with the type's name `name`."""
        size = character.plain.size or 1
        if not 0 <= length < 1 << self.bits - 1 or size not in WIDTHS:
            raise NoValue(f"a text of {length:,} characters")
        shown = min(length, max(self.limits.characters, self.limits.size // size))
        self.spend(1 + shown * size // CHUNK)
        data = Storage.at(self.memory, address).read(shown * size) if shown else b""
        return self.text_of_bytes(name, data, character, length)

    def text_of_bytes(self, name: str, data: bytes, character: Type, length: int | None = None) -> Value:
        """Return a text by its bytes; `length` is its number of characters if some were left out."""
        size = character.plain.size or 1
        count = len(data) // size
        length = count if length is None else length
        characters = characters_of(data, size, self.order)
        text = string_text(characters, self.limits.characters, is_cut=count < length)
        text = wide_prefix(character) + text if size > 1 else text
        content = decoded(data[: 4 * size * self.limits.characters], size, self.order)[: self.limits.characters]
        return Value(ValueKind.STRING, name, text, content, length=length, is_cut=text.endswith("..."))

    def constant(self, value: int, size: int) -> Storage:
        """Return the storage of a number that is known."""
        data = (value & (1 << 8 * size) - 1).to_bytes(size, self.order)
        return Storage(self.memory, (Piece(None, data=data),))

    def _readable(self, address: int, size: int) -> bytes:
        """Return the bytes at an address that can be read, up to the end of its page if not all can."""
        for count in (size, min(size, 4096 - address % 4096)):
            try:
                return self.memory.read(address, count)
            except LookupError:
                continue
        return b""

    def _reference(self, type: Type, storage: Storage, depth: int) -> Value:
        address = self.address(storage)
        target = type.plain.target
        if depth >= self.limits.depth:
            return Value(ValueKind.REFERENCE, type.name, f"@{address:#x}: {{...}}", address, is_cut=True)
        if not address:
            return Value(ValueKind.REFERENCE, type.name, f"@{address:#x}", address)
        shown = self.value(target, Storage.at(self.memory, address), depth + 1)
        return Value(ValueKind.REFERENCE, type.name, f"@{address:#x}: {shown.text}", address, target=shown)

    def _member_pointer(self, type: Type, storage: Storage, depth: int) -> Value:
        size = type.plain.size or self.bits // 8
        word = self.bits // 8
        value = self.number(storage, min(size, word), signed=True)
        if size > word:
            adjustment = self.number(storage.part(word), word, signed=True)
            if not value:
                return Value(ValueKind.POINTER, type.name, "NULL", 0)
            name = "" if value & 1 else self.symbol(value)
            text = f"&virtual table offset {value - 1}" if value & 1 else f"{value:#x}"
            text += (f" <{name}>" if name else "") + (f", this adjustment {adjustment}" if adjustment else "")
            return Value(ValueKind.POINTER, type.name, text, value)
        if value == -1:
            return Value(ValueKind.POINTER, type.name, "NULL", value)
        containing = type.plain.containing() if type.plain.containing is not None else type
        member = next((each for each in containing.plain.members if each.offset == value and each.name), None)
        text = str(value) if member is None else f"&{containing.name}::{member.name}"
        return Value(ValueKind.POINTER, type.name, text, value)

    def _function(self, type: Type, storage: Storage, depth: int) -> Value:
        address = storage.address
        name = self.symbol(address) if address is not None else ""
        text = f"{{{type.name}}} {address:#x}" if address is not None else f"{{{type.name}}}"
        return Value(ValueKind.POINTER, type.name, f"{text} <{name}>" if name else text, address)

    # aggregates

    def _structure(self, type: Type, storage: Storage, depth: int) -> Value:
        plain = type.plain
        if plain.is_declaration:
            raise NoValue("its type is incomplete")
        if depth >= self.limits.depth:
            return Value(ValueKind.STRUCTURE, type.name, "{...}", is_cut=True)
        return self._container(self, type, storage, depth) or self.structure(type, storage, depth)

    def structure(self, type: Type, storage: Storage, depth: int) -> Value:
        """Return a structure or union with its members."""
        storage = storage.fetched(type.plain.size or 0)
        fields = []
        for member in type.plain.members:
            if member.is_base and member.offset is None and self._is_shown(member, storage):
                continue
            fields.append(Field(member.name, self.member(member, storage, depth + 1), member.is_base))
        return Value(ValueKind.STRUCTURE, type.name, structure_text(fields), fields=tuple(fields))

    def _is_shown(self, member: Member, storage: Storage) -> bool:
        """Return True if a virtual base class was shown before, as a part of another base class."""
        try:
            base = member.type.plain.key, (storage.address or 0) + self.offset_of(member, storage)
        except NoValue:
            return False
        if base in self._virtual_bases:
            return True
        self._virtual_bases.add(base)
        return False

    def member(self, member: Member, storage: Storage, depth: int) -> Value:
        """Return the value of a member of a structure."""
        try:
            self.spend(1)
            if member.bits:
                return self._bit_field(member, storage)
            return self._value(member.type, storage.part(self.offset_of(member, storage)), depth)
        except NoValue as error:
            return self.missing(member.type, str(error))

    def offset_of(self, member: Member, storage: Storage) -> int:
        """Return the offset of a member, which a virtual base class computes. Raises NoValue."""
        if member.offset is not None:
            return member.offset
        address = storage.address
        if address is None or self.surroundings is None or not member.expression:
            raise NoValue("the offset of a base class is unknown")
        # the address of the structure is pushed first; the result is the address of the member
        prefix = bytes([constants.DW_OP_push_object_address])
        where = calculate(prefix + member.expression, self.surroundings, object_address=address)
        return where - address

    def _bit_field(self, member: Member, storage: Storage) -> Value:
        plain = member.type.plain
        first, last = member.bit // 8, (member.bit + member.bits - 1) // 8
        if not 0 < member.bits <= 128:
            raise NoValue(f"a bit field of {member.bits:,} bits")
        needed = (1 << member.bits) - 1 << member.bit - 8 * first
        data = storage.part(first).read(last - first + 1, needed if self.order == "little" else -1)
        number = int.from_bytes(data, self.order)
        if self.order == "little":
            number >>= member.bit - 8 * first
        else:
            number >>= 8 * len(data) - (member.bit - 8 * first) - member.bits
        number &= (1 << member.bits) - 1
        if plain.kind is TypeKind.ENUMERATION:
            return self.enumeration(member.type, number)
        if plain.encoding not in UNSIGNED and number >> member.bits - 1:
            number -= 1 << member.bits
        if plain.kind not in (TypeKind.INTEGER, TypeKind.CHARACTER, TypeKind.BOOLEAN):
            raise NoValue("a bit field of this type is not supported")
        return self.integer(member.type, number)

    def _array(self, type: Type, storage: Storage, depth: int) -> Value:
        plain = type.plain
        element = plain.target
        count = self.count_of(plain)
        if plain.language is Language.GO and count is None:
            count = 0
        if count is None or (count == 0 and plain.language in (Language.C, Language.CPP)):  # a flexible array member
            address = storage.address
            text = "<optimized out>" if address is None else f"{address:#x}"
            if address is not None and is_text(element):
                text = f"{text} {self.string_at(address, element).text}"
            return Value(ValueKind.ARRAY, type.name, text, length=count)
        if depth >= self.limits.depth:
            return Value(ValueKind.ARRAY, type.name, "{...}", length=count, is_cut=True)
        if is_text(element) and not plain.encoding and plain.language is not Language.RUST:
            return self.character_array(type, storage, count)
        return self.elements(type, element, storage, count, depth)

    def count_of(self, array: Type) -> int | None:
        """Return the number of elements of an array; None if it is unknown."""
        bound = array.bound
        if bound.number is not None or self.surroundings is None:
            return bound.number
        try:
            if bound.expression:
                value = calculate(bound.expression, self.surroundings)
            elif bound.variable:
                value = self.surroundings.variable_value(bound.variable)
            else:
                return None
        except NoValue:
            return None
        value = value - (1 << self.bits) if value >> self.bits - 1 else value
        return max(0, value + bound.adds)

    def character_array(self, type: Type, storage: Storage, count: int) -> Value:
        """Return an array of characters as a text; trailing NUL characters are not part of it."""
        element = type.plain.target
        size = element.plain.size or 1
        shown = min(count, self.limits.size // size)
        self.spend(1 + shown * size // CHUNK)
        try:
            data = storage.read(shown * size)
        except NoValue:
            return self.elements(type, element, storage, count, 0)
        if shown == count and data.endswith(bytes(size)):
            data = data[: len(data) - size]
        characters = characters_of(data, size, self.order)
        is_cut = shown < count
        text = string_text(characters, self.limits.characters, is_cut=is_cut)
        if size > 1:
            text = wide_prefix(element) + text
        content = decoded(data.rstrip(b"\0") if size == 1 else data, size, self.order)[: self.limits.characters]
        return Value(ValueKind.STRING, type.name, text, content, length=count, is_cut=text.endswith("..."))

    def elements(
        self, type: Type, element: Type, storage: Storage, count: int, depth: int, *, kind: ValueKind = ValueKind.ARRAY
    ) -> Value:
        """Return an array: at most the limit of elements, where rows of equal elements count as few."""
        size = element.plain.size
        if size is None:
            raise NoValue("the size of its elements is unknown")
        fields, is_cut, parts = self.items(element, storage, count, depth, size)
        marks = "[]" if type.plain.language is Language.RUST else "{}"
        text = f"{marks[0]}{joined(parts, is_cut=is_cut)}{marks[1]}"
        return Value(kind, type.name, text, fields=tuple(fields), length=count, is_cut=is_cut)

    def items(
        self, element: Type, storage: Storage, count: int, depth: int, stride: int
    ) -> tuple[list[Field], bool, list[str]]:
        """Return elements that follow each other, True if some were left out, and the text of each.

        More than REPEATS equal elements in a row count as REPEATS elements of the limit, and are decoded once.
        """
        fields: list[Field] = []
        texts: list[str] = []
        limit = self.limits.elements
        storage = storage.fetched(min(count * stride, self.limits.size))
        index = written = 0
        numbers = self._numbers(element, storage, min(count, 4 * limit), stride)
        key = element, numbers, count
        if numbers and key in self._arrays:
            self.spend(1)
            return self._arrays[key]
        while index < count and written < limit:
            if index < len(numbers):
                value, equal = self._number_element(element, numbers[index]), row_length(numbers, index)
            else:
                part = storage.part(index * stride)
                value = self.value(element, part, depth + 1)
                equal = self._equal(part, min(count - index, self.limits.size // max(1, stride)), stride)
            fields += [Field("", value)] * min(equal, limit - len(fields))
            texts += [value.text] * equal
            index += equal
            written += min(equal, REPEATS)
            if self.parts_left < 0 or self.budget.left < 0:
                break
        else:
            if numbers and len(texts) <= len(numbers):
                if len(self._arrays) >= ARRAYS_KEPT:
                    self._arrays.clear()
                self._arrays[key] = fields, index < count, texts
        return fields, index < count, texts

    def _numbers(self, element: Type, storage: Storage, count: int, size: int) -> Sequence[int]:
        """Return elements that are integers or pointers by their numbers; () for others, or if some have no value."""
        plain = element.plain
        is_pointer = plain.kind is TypeKind.POINTER and plain.language is not Language.GO and size in POINTER_SIZES
        if size != plain.size or size not in FORMATS or not (is_pointer or plain.kind in INTEGERS):
            return ()
        try:
            data = storage.read(count * size)
        except NoValue:
            return ()
        form = FORMATS[size].upper() if is_pointer or plain.encoding in UNSIGNED else FORMATS[size]
        return struct.unpack(f"{'<' if self.order == 'little' else '>'}{count}{form}", data)

    def _number_element(self, type: Type, number: int) -> Value:
        try:
            self.spend(1)
        except NoValue as error:
            return self.missing(type, str(error))
        return self.scalar(type, number)

    def _equal(self, storage: Storage, count: int, stride: int) -> int:
        """Return how many elements from the start have the same bytes, if they are more than REPEATS; otherwise 1."""
        if count <= REPEATS or not stride:
            return 1
        try:
            head = storage.read((REPEATS + 1) * stride)
        except NoValue:
            return 1
        first = head[:stride]
        if head != first * (REPEATS + 1):
            return 1
        try:
            data = storage.read(count * stride)
        except NoValue:
            return REPEATS + 1
        equal = REPEATS + 1
        while equal < count and data.startswith(first, equal * stride):
            equal += 1
        return equal


def structure_text(fields: list[Field]) -> str:
    """Return the text of a structure: `{<Base> = {...}, a = 1, {b = 2}}`."""
    parts = []
    for field in fields:
        if field.is_base:
            parts.append(f"<{field.name or field.value.type}> = {field.value.text}")
        else:
            parts.append(f"{field.name} = {field.value.text}" if field.name else field.value.text)
    if all(field.is_base for field in fields):
        parts.append("<No data fields>")
    return "{" + ", ".join(parts) + "}"


def row_length(numbers: Sequence[int], index: int) -> int:
    """Return how many numbers from an index are equal, if they are more than REPEATS; otherwise 1."""
    first, end = numbers[index], index + REPEATS
    if end >= len(numbers) or numbers[end] != first or any(number != first for number in numbers[index:end]):
        return 1
    while end < len(numbers) and numbers[end] == first:
        end += 1
    return end - index


def is_text(type: Type) -> bool:
    """Return True for types whose arrays are texts: integers of a byte, and wide characters."""
    plain = type.plain
    if plain.kind is TypeKind.CHARACTER:
        return plain.size in WIDTHS
    return plain.kind is TypeKind.INTEGER and (plain.size == 1 or bool(wide_prefix(type)))


def wide_prefix(type: Type) -> str:
    """Return the prefix of characters and texts of a type: L for wchar_t; "" for single bytes."""
    plain = type.plain
    for name in (type.name.removeprefix("const "), plain.name):
        if name in WIDE:
            return WIDE[name]
    return ""


def wide_type(plain: Type) -> Type:
    """Return a type like an integer type that is shown as a character."""
    return Type(TypeKind.CHARACTER, plain.name, plain.size)


def terminator(data: bytes, size: int) -> int | None:
    """Return the offset of the first NUL character, None if there is none."""
    if size == 1:
        index = data.find(0)
        return None if index < 0 else index
    for offset in range(0, len(data) - size + 1, size):
        if not any(data[offset : offset + size]):
            return offset
    return None


def decoded(data: bytes, size: int, order: str) -> str:
    """Return a text of characters of `size` bytes."""
    if size == 1:
        return data.decode("utf-8", "backslashreplace")
    return data.decode(f"utf-{8 * size}-{'le' if order == 'little' else 'be'}", "backslashreplace")


DECODERS: dict[TypeKind, Callable[[Decoder, Type, Storage, int], Value]] = {
    TypeKind.INTEGER: Decoder._integer,
    TypeKind.CHARACTER: Decoder._integer,
    TypeKind.BOOLEAN: Decoder._integer,
    TypeKind.FLOAT: Decoder._float,
    TypeKind.COMPLEX: Decoder._float,
    TypeKind.ENUMERATION: Decoder._enumeration,
    TypeKind.POINTER: Decoder._pointer,
    TypeKind.REFERENCE: Decoder._reference,
    TypeKind.MEMBER_POINTER: Decoder._member_pointer,
    TypeKind.FUNCTION: Decoder._function,
    TypeKind.STRUCTURE: Decoder._structure,
    TypeKind.UNION: Decoder._structure,
    TypeKind.ARRAY: Decoder._array,
}
