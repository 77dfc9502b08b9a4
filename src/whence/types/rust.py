"""Values of Rust, in the form of its Debug trait: `Some(7)`, `Point { x: 3 }`, `["a", "b"]`, `{"k": 5}`.

The layouts of its library are not specified; members are found by their names. hashbrown's tables: groups of control
bytes, before which the entries are stored in reverse order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from whence.types.model import Field, Language, Member, Type, TypeKind, Value, ValueKind
from whence.types.parts import Part, Unfit, checked_count, find_member, run, size_of, text_at

if TYPE_CHECKING:
    from whence.types.model import Variants

Show = Callable[[Part, int], Value]
FULL = 0x80  # a control byte of hashbrown below this: the slot has an entry
CONTROL_BYTES = 1 << 20  # of a table, that are searched for entries
NODE_LEVELS = 16  # of a BTreeMap
STEPS = 8  # wrappers around a pointer
INNER_TUPLE = "__"  # begins the names of members of tuples


def show(part: Part, depth: int) -> Value | None:
    """Return the value of a structure of Rust. Raises Unfit, NoValue."""
    plain = part.type.plain
    if plain.language is not Language.RUST or plain.kind is not TypeKind.STRUCTURE:
        return None
    if plain.variants is not None:
        return enumeration(part, plain.variants, depth)
    names = {member.name for member in plain.members}
    if {"data_ptr", "length"} <= names:
        return fat_pointer(part, depth)
    shown = SHOWN.get(plain.name.partition("<")[0])
    if shown is not None:
        try:
            return shown(part, depth)
        except Unfit:  # another version of the library
            pass
    return structure(part, plain.name, depth)


def structure(part: Part, name: str, depth: int) -> Value:
    """Return a structure, a tuple or a unit by its members."""
    decoder = part.decoder
    fields = [
        Field(member.name, decoder.member(member, part.storage, depth + 1))
        for member in part.type.plain.members
        if not member.is_artificial
    ]
    own = "" if name.startswith("(") else last_segment(name)
    is_tuple = all(field.name.startswith(INNER_TUPLE) and field.name[2:].isdecimal() for field in fields)
    if not fields:
        text = own or "()"
    elif is_tuple:
        text = f"{own}({', '.join(field.value.text for field in fields)}{',' if len(fields) == 1 and not own else ''})"
    else:
        text = f"{own} {{{', '.join(f'{field.name}: {field.value.text}' for field in fields)}}}"
    return Value(ValueKind.STRUCTURE, part.type.name, text, fields=tuple(fields))


def last_segment(name: str) -> str:
    """Return the last segment of a path, without generic arguments.

    >>> last_segment("alloc::vec::Vec<core::option::Option<i32>>"), last_segment("a::f::{closure_env#0}")
    ('Vec', '{closure_env#0}')
    """
    return name.partition("<")[0].rpartition("::")[2]


def enumeration(part: Part, variants: Variants, depth: int) -> Value:
    """Return the variant that the discriminant selects."""
    chosen = None
    default = None
    number: int | None = None
    if variants.discriminant is not None:
        member = variants.discriminant
        size = size_of(member.type)
        number = part.decoder.number(part.storage.part(member.offset or 0), size)
    for variant in variants.variants:
        if variant.values is None:
            default = variant
        elif number is not None and number in [value & (1 << 8 * size) - 1 for value in variant.values]:
            chosen = variant
    chosen = chosen or default
    if chosen is None:
        raise Unfit("no variant has this discriminant")
    content = Part(part.decoder, chosen.member.type, part.storage.part(chosen.member.offset or 0))
    plain = content.type.plain
    if plain.kind is TypeKind.STRUCTURE and plain.variants is None and depth < part.decoder.limits.depth:
        payload = structure(content, chosen.member.name, depth + 1)
    else:
        payload = content.value(depth + 1)
    return Value(ValueKind.VARIANT, part.type.name, payload.text, label=chosen.member.name, fields=payload.fields)


def fat_pointer(part: Part, depth: int) -> Value:
    """Return the elements or the text that a pointer with a length points to."""
    data, length = part.member("data_ptr"), part.member("length").number()
    name, target, address = part.type.plain.name, data.type.plain.target, data.number()
    for _ in range(STEPS):
        tail = unsized_tail(target)
        if tail is None:
            break
        if target.name in TEXT_TYPES:
            name = target.name
        address, target = address + (tail.offset or 0), tail.type
    if name == C_TEXT:
        return text_at(part, address, max(0, length - 1), target)  # `length` counts the zero
    if name in TEXT_TYPES or name.rstrip(">").endswith("str") or name.startswith(TEXTS):
        return text_at(part, address, length, target)
    return elements(part, run(part, target, address, checked_count(length, part), depth + 1), length)


def unsized_tail(type: Type, steps: int = STEPS) -> Member | None:
    """Return the last member of a structure if it is unsized: its type is that of an element after the structure."""
    plain = type.plain
    members = plain.members if plain.kind is TypeKind.STRUCTURE and steps else ()
    last = max(members, key=lambda member: member.offset or 0, default=None)
    if last is None or (last.offset or 0) < (plain.size or 0):
        return None
    return last if last.type.plain.size or unsized_tail(last.type, steps - 1) else None


TEXTS = ("alloc::boxed::Box<str", "alloc::rc::Rc<str", "alloc::sync::Arc<str")
C_TEXT = "core::ffi::c_str::CStr"
TEXT_TYPES = ("std::path::Path", "std::ffi::os_str::OsStr", C_TEXT)


def elements(part: Part, values: Iterable[Value], count: int, brackets: str = "[]") -> Value:
    """Return a list of values, at most the limit of elements."""
    fields: list[Field] = []
    for value in values:
        if len(fields) >= part.decoder.limits.elements:
            break
        fields.append(Field("", value))
    is_cut = len(fields) < count
    inner = ", ".join(field.value.text for field in fields) + ("..." if is_cut else "")
    text = f"{brackets[0]}{inner}{brackets[1]}"
    return Value(ValueKind.ARRAY, part.type.name, text, fields=tuple(fields), length=count, is_cut=is_cut)


def pairs(part: Part, values: Iterable[tuple[Value, Value]], count: int) -> Value:
    fields: list[Field] = []
    for key, value in values:
        if len(fields) >= 2 * part.decoder.limits.elements:
            break
        fields += [Field("", key), Field("", value)]
    is_cut = len(fields) < 2 * count
    texts = [f"{fields[i].value.text}: {fields[i + 1].value.text}" for i in range(0, len(fields), 2)]
    text = "{" + ", ".join(texts) + ("..." if is_cut else "") + "}"
    return Value(ValueKind.MAP, part.type.name, text, fields=tuple(fields), length=count, is_cut=is_cut)


def parameter(type: Type, name: str) -> Type:
    """Return a generic argument of a type. Raises Unfit."""
    _ = type.plain.members
    argument = type.plain.parameters.get(name)
    if argument is None:
        raise Unfit(name)
    return argument


def inner(part: Part, *names: str) -> Part:
    """Return a member along a path, searching the wrappers around each (RawVec, RawVecInner). Raises Unfit."""
    for name in names:
        waiting, match = [part], None
        for _ in range(STEPS):
            if match is not None or not waiting:
                break
            current = waiting.pop(0)
            match = find_member(current, name)
            for wrapper in ("buf", "inner", "base", "table", "map", "vec", "data", "value"):
                deeper = find_member(current, wrapper)
                if deeper is not None and deeper.type.plain.kind is TypeKind.STRUCTURE:
                    waiting.append(deeper)
        if match is None:
            raise Unfit(name)
        part = match
    return part


def pointer(part: Part) -> int:
    """Return the address in a pointer, through Unique and NonNull. Raises Unfit."""
    for _ in range(STEPS):
        if part.type.plain.kind is TypeKind.POINTER:
            return part.number()
        part = part.member("pointer" if part.has("pointer") else "__0")
    raise Unfit("no pointer")


def pointed(part: Part) -> Type:
    """Return the type that a pointer points to, through Unique and NonNull. Raises Unfit."""
    for _ in range(STEPS):
        if part.type.plain.kind is TypeKind.POINTER:
            return part.type.plain.target
        part = part.member("pointer" if part.has("pointer") else "__0")
    raise Unfit("no pointer")


def string(part: Part, depth: int) -> Value:
    vector = part.member("vec")
    return text_at(part, pointer(inner(vector, "ptr")), vector.member("len").number(), parameter(vector.type, "T"))


def vector(part: Part, depth: int) -> Value:
    element = parameter(part.type, "T")
    count = checked_count(part.member("len").number(), part)
    return elements(part, run(part, element, pointer(inner(part, "ptr")), count, depth + 1), count)


def deque(part: Part, depth: int) -> Value:
    element = parameter(part.type, "T")
    cap = inner(part, "cap")
    capacity = (cap.member("__0") if cap.type.plain.kind is TypeKind.STRUCTURE else cap).number()
    if part.has("len"):
        first, count = part.member("head").number(), part.member("len").number()
    else:  # before Rust 1.67; the capacity is a power of two
        first = part.member("tail").number()
        count = (part.member("head").number() - first) % max(1, capacity)
    if count > capacity or first > capacity:
        raise Unfit("a VecDeque larger than its buffer")
    count = checked_count(count, part)
    size = element.plain.size or 0
    start = pointer(inner(part, "ptr"))

    def values() -> Iterator[Value]:
        for index in range(count):
            yield part.at(start + (first + index) % max(1, capacity) * size, element).value(depth + 1)

    return elements(part, values(), count)


def entries(part: Part) -> tuple[Iterator[Part], int]:
    """Return the entries of a table of hashbrown, and their number."""
    table = inner(part, "table")
    entry = parameter(table.type, "T")
    raw = table.member("table") if table.has("table") else table
    mask, count = raw.member("bucket_mask").number(), checked_count(raw.member("items").number(), part)
    control = pointer(raw.member("ctrl"))
    size = entry.plain.size or 0

    def slots() -> Iterator[Part]:
        left = count
        flags = part.at(control, entry).storage.read(min(mask + 1, CONTROL_BYTES)) if count else b""
        part.decoder.spend(len(flags) // 64)
        for index, flag in enumerate(flags):
            if flag < FULL and left:
                left -= 1
                yield part.at(control - (index + 1) * size, entry)

    return slots(), count


def hash_map(part: Part, depth: int) -> Value:
    slots, count = entries(part.member("base") if part.has("base") else part)
    values = ((slot.member("__0").value(depth + 1), slot.member("__1").value(depth + 1)) for slot in slots)
    return pairs(part, values, count)


def hash_set(part: Part, depth: int) -> Value:
    base = part.member("base") if part.has("base") else part
    slots, count = entries(base.member("map") if base.has("map") else base)
    return elements(part, (slot.member("__0").value(depth + 1) for slot in slots), count, "{}")


def in_some(option: Part) -> Part:
    """Return the content of an Option that is not None, or would be. Raises Unfit."""
    variants = option.type.plain.variants
    some = None if variants is None else next((v for v in variants.variants if v.member.name == "Some"), None)
    if some is None:
        raise Unfit("not an Option")
    return Part(option.decoder, some.member.type, option.storage.part(some.member.offset or 0)).member("__0")


def linked_list(part: Part, depth: int) -> Value:
    count, head = checked_count(part.member("len").number(), part), in_some(part.member("head"))
    node = pointed(head)

    def values() -> Iterator[Value]:
        address = pointer(head)
        for _ in range(count):
            entry = part.at(address, node)
            yield entry.member("element").value(depth + 1)
            address = pointer(in_some(entry.member("next")))

    return elements(part, values(), count)


def tree_entries(part: Part) -> Iterator[tuple[Part, Part]]:
    """Yield keys and values of a BTreeMap, in order."""
    reference = in_some(part.member("root"))
    height, node = reference.member("height").number(), pointer(reference.member("node"))
    if height > NODE_LEVELS:
        raise Unfit("a tree with many levels")
    leaf = pointed(reference.member("node"))
    word = part.decoder.bits // 8
    edges = -(-size_of(leaf) // word) * word

    def below(address: int, level: int) -> Iterator[tuple[Part, Part]]:
        part.decoder.spend(1)
        this = part.at(address, leaf)
        keys, values, used = this.member("keys"), this.member("vals"), this.member("len").number()
        key, value = (uninitialized(column.type.plain.target) for column in (keys, values))
        for index in range(used + 1):
            if level:
                child = part.decoder.address(this.storage.part(edges + index * word))
                yield from below(child, level - 1)
            if index < used:
                yield (
                    Part(part.decoder, key, keys.storage.part(index * (key.plain.size or 0))),
                    Part(part.decoder, value, values.storage.part(index * (value.plain.size or 0))),
                )

    return below(node, height)


def uninitialized(type: Type) -> Type:
    """Return the type inside MaybeUninit."""
    return parameter(type, "T") if "MaybeUninit<" in type.plain.name else type


def tree_map(part: Part, depth: int) -> Value:
    count = checked_count(part.member("length").number(), part)
    entries = tree_entries(part) if count else iter(())
    return pairs(part, ((key.value(depth + 1), value.value(depth + 1)) for key, value in entries), count)


def tree_set(part: Part, depth: int) -> Value:
    map_ = part.member("map")
    count = checked_count(map_.member("length").number(), part)
    entries = tree_entries(map_) if count else iter(())
    return elements(part, (key.value(depth + 1) for key, _ in entries), count, "{}")


def counted(part: Part, depth: int) -> Value:
    """Return what an Rc or an Arc points to."""
    box = part.member("ptr")
    if box.has("pointer") and box.member("pointer").has("length"):
        return fat_pointer(box.member("pointer"), depth)
    target = pointed(box)
    return part.at(pointer(box), target).member("data" if "ArcInner" in target.name else "value").value(depth + 1)


def cell(part: Part, depth: int) -> Value:
    return part.member("value", "value").value(depth + 1)


def system_text(part: Part, depth: int) -> Value:
    """Return the text of a PathBuf, an OsString or a CString."""
    for _ in range(STEPS):
        if not part.has("inner"):
            break
        part = part.member("inner")
    if part.has("data_ptr"):
        data, length = part.member("data_ptr"), part.member("length").number()
        return text_at(part, data.number(), max(0, length - 1), data.type.plain.target)  # `length` counts the zero
    return text_at(part, pointer(inner(part, "ptr")), part.member("len").number(), parameter(part.type, "T"))


def atomic(part: Part, depth: int) -> Value:
    number = part.member("v", "value")
    return (number.member("__0") if number.has("__0") else number).value(depth + 1)


def heap(part: Part, depth: int) -> Value:
    return part.member("data").value(depth)


def mutex(part: Part, depth: int) -> Value:
    """Return a Mutex or an RwLock by what it protects."""
    value = part.member("data", "value").value(depth + 1)
    text = f"{last_segment(part.type.plain.name)} {{data: {value.text}}}"
    return Value(ValueKind.STRUCTURE, part.type.name, text, fields=(Field("data", value),))


ATOMICS = ("", "Bool", "Ptr", *(f"{sign}{bits}" for sign in "IU" for bits in (8, 16, 32, 64, "size")))
LOCKS = ("poison::mutex::Mutex", "mutex::Mutex", "poison::rwlock::RwLock", "rwlock::RwLock")
SHOWN: dict[str, Show] = {
    "alloc::string::String": string,
    "alloc::vec::Vec": vector,
    "alloc::collections::vec_deque::VecDeque": deque,
    "std::collections::hash::map::HashMap": hash_map,
    "hashbrown::map::HashMap": hash_map,
    "std::collections::hash::set::HashSet": hash_set,
    "alloc::collections::btree::map::BTreeMap": tree_map,
    "alloc::collections::btree::set::BTreeSet": tree_set,
    "alloc::rc::Rc": counted,
    "alloc::sync::Arc": counted,
    "core::cell::Cell": cell,
    "core::cell::RefCell": cell,
    "alloc::collections::binary_heap::BinaryHeap": heap,
    "alloc::collections::linked_list::LinkedList": linked_list,
    **dict.fromkeys(("std::path::PathBuf", "std::ffi::os_str::OsString", "alloc::ffi::c_str::CString"), system_text),
    **dict.fromkeys((f"core::sync::atomic::Atomic{kind}" for kind in ATOMICS), atomic),
    **dict.fromkeys((f"std::sync::{name}" for name in LOCKS), mutex),
}
