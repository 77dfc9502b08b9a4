"""Values of Go: strings, slices, maps, channels and interfaces, as Go's script for gdb shows them.

Maps are those of Go 1.24 and later ("Swiss" maps): directories of tables of groups, of which a group has eight control
bytes and eight slots. The dynamic type of an interface is found by the address of its runtime type.
"""

from __future__ import annotations

from collections.abc import Iterator

from whence.types.model import Language, Type, TypeKind, Value, ValueKind
from whence.types.parts import Part, Unfit, checked_count, mapping, named, run, sequence, size_of, text_at
from whence.types.text import missing_text

SLOTS = 8  # of a group
EMPTY = 0x80  # a control byte below this: the slot has an entry
MOST_TABLES, MOST_GROUPS = 1 << 16, 1 << 17  # of a map, that are searched for entries
POINTERS = (TypeKind.POINTER, TypeKind.FUNCTION)
EMPTY_INTERFACE, INTERFACE = ("_type", "data"), ("tab", "data")


def show(part: Part, depth: int) -> Value | None:
    """Return the value of a string, slice, map, channel or interface; None for other types. Raises Unfit, NoValue."""
    plain = part.type.plain
    if plain.language is not Language.GO:
        return None
    if plain.kind is TypeKind.POINTER:
        if part.type.name.startswith("map["):
            return hash_map(part, depth)
        return channel(part, depth) if part.type.name.startswith("chan ") else None
    names = tuple(member.name for member in plain.members)
    if names == ("str", "len"):
        length = part.member("len").number(signed=True)
        pointer = part.member("str")
        return text_at(part, pointer.number(), checked_count(length, part), pointer.type.plain.target)
    if names == ("array", "len", "cap"):
        return slice_(part, depth)
    if names in (EMPTY_INTERFACE, INTERFACE):
        return interface(part, names[0], depth)
    return None


def slice_(part: Part, depth: int) -> Value:
    array = part.member("array")
    count = checked_count(part.member("len").number(signed=True), part)
    if count > checked_count(part.member("cap").number(signed=True), part):
        raise Unfit("a slice longer than its capacity")
    return sequence(part, part.type.name, run(part, array.type.plain.target, array.number(), count, depth + 1), count)


def channel(part: Part, depth: int) -> Value | None:
    """Return the elements that wait in a channel."""
    address = part.number()
    if not address:
        return None
    queue = part.at(address, part.type.plain.target)
    count, size = (checked_count(queue.member(name).number(), part) for name in ("qcount", "dataqsiz"))
    first, buffer = queue.member("recvx").number(), queue.member("buf").number()
    element = queue.member("recvq", "first").type.plain.target
    of = next((member.type.plain.target for member in element.plain.members if member.name == "elem"), None)
    if of is None or count > size:
        raise Unfit("a channel without a type of its elements")
    step = of.plain.size or 0
    values = (part.at(buffer + (first + index) % max(1, size) * step, of).value(depth + 1) for index in range(count))
    return sequence(part, part.type.name, values, count)


def hash_map(part: Part, depth: int) -> Value:
    address = part.number()
    if not address:
        return Value(ValueKind.MAP, part.type.name, f"{part.type.name} nil", length=0)
    table = part.at(address, part.type.plain.target)
    count = checked_count(table.member("used").number(), part)
    values = ((key.value(depth + 1), value.value(depth + 1)) for key, value in entries(table))
    return mapping(part, part.type.name, values, count)


def entries(table: Part) -> Iterator[tuple[Part, Part]]:
    """Yield the keys and values of a map."""
    directory, length = table.member("dirPtr"), table.member("dirLen").number()
    if length > MOST_TABLES:
        raise Unfit("a map with many tables")
    inner = directory.type.plain.target.plain.target  # of **table
    groups_type = next((member.type for member in inner.plain.members if member.name == "groups"), None)
    data = None if groups_type is None else groups_type.plain.members[:1]
    if not data or data[0].name != "data":
        raise Unfit("a map without groups")
    group = data[0].type.plain.target
    if not length:
        yield from slots(table.at(directory.number(), group))
        return
    word = table.decoder.bits // 8
    seen = set[int]()
    for index in range(length):
        address = table.decoder.address(table.at(directory.number() + index * word, inner).storage)
        if address in seen:
            continue
        seen.add(address)
        groups = table.at(address, inner).member("groups")
        first, mask = groups.member("data").number(), groups.member("lengthMask").number()
        if mask >= MOST_GROUPS:
            raise Unfit("a table with many groups")
        for number in range(mask + 1):
            table.decoder.spend(1)
            yield from slots(table.at(first + number * size_of(group), group))


def slots(group: Part) -> Iterator[tuple[Part, Part]]:
    """Yield the keys and values of a group."""
    control = group.member("ctrl").storage.read(SLOTS)
    column = group.member("slots")
    slot = column.type.plain.target
    size = slot.plain.size or 0
    for index, flag in enumerate(control):
        if flag < EMPTY:
            entry = Part(group.decoder, slot, column.storage.part(index * size))
            yield entry.member("key"), entry.member("elem")


def interface(part: Part, first: str, depth: int) -> Value:
    """Return the dynamic type and value of an interface."""
    decoder = part.decoder
    word = decoder.bits // 8
    address = part.member(first).number()
    if not address:
        return Value(ValueKind.VARIANT, part.type.name, f"{part.type.name} nil", label="nil")
    if first == "tab":  # a table of methods: the type of the interface, then the dynamic type
        address = decoder.address(part.at(address + word, part.type).storage)
    dynamic = decoder.runtime_type(address)
    data = part.member("data")
    if dynamic is None:
        text = f"{part.type.name} {missing_text(f'the type at {address:#x} is unknown')}"
        return named(part, text, [("data", data.value(depth + 1))])
    is_direct = holds_pointer(dynamic)
    content = Part(decoder, dynamic, data.storage) if is_direct else part.at(data.number(), dynamic)
    value = content.value(depth + 1)
    text = f"{part.type.name}({dynamic.name}) {value.text}"
    fields = named(part, "", [("data", value)]).fields
    return Value(ValueKind.VARIANT, part.type.name, text, label=dynamic.name, fields=fields)


def holds_pointer(type: Type) -> bool:
    """Return True for types that an interface stores itself: pointers, and structures and arrays of one pointer."""
    plain = type.plain
    for _ in range(8):
        if plain.kind in POINTERS:
            return True
        if plain.kind is TypeKind.STRUCTURE and len(plain.members) == 1:
            plain = plain.members[0].type.plain
        elif plain.kind is TypeKind.ARRAY and plain.bound.number == 1:
            plain = plain.target.plain
        else:
            return False
    return False
