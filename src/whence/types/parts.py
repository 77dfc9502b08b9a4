"""Parts of containers: members by name through base classes, words of memory, lists of elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from whence.types.model import Field, Member, Type, TypeKind, Value, ValueKind
from whence.types.storage import Storage
from whence.types.text import joined

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from whence.types.decoding import Decoder

SEARCH_DEPTH = 12  # of members and base classes around a member
SEARCHED = 1000  # members that are inspected


class Unfit(Exception):
    """A type is not laid out like the container whose name it has."""


class Part(NamedTuple):
    """A part of a value: its type and where it is."""

    decoder: Decoder
    type: Type
    storage: Storage

    def member(self, *names: str) -> Part:
        """Return the member along a path of names, also those of base classes and anonymous members. Raises Unfit."""
        part = self
        for name in names:
            member = find_member(part, name)
            if member is None:
                raise Unfit(name)
            part = member
        return part

    def has(self, name: str) -> bool:
        return find_member(self, name) is not None

    def number(self, *, signed: bool = False) -> int:
        """Return the value of an integer, a pointer or an enumeration. Raises NoValue, Unfit."""
        size = self.type.plain.size
        if size is None or not 0 < size <= self.decoder.bits // 8:
            raise Unfit(self.type.name)
        return self.decoder.number(self.storage, size, signed=signed)

    def at(self, address: int, of: Type) -> Part:
        """Return an object at an address."""
        return Part(self.decoder, of, Storage.at(self.decoder.memory, address))

    def value(self, depth: int) -> Value:
        """Return the value of the part."""
        return self.decoder.value(self.type, self.storage, depth)


def find_member(part: Part, name: str) -> Part | None:
    """Return the member with a name: the nearest, by breadth, in base classes and anonymous members."""
    waiting = [(part, 0)]
    seen = 0
    while waiting:
        current, depth = waiting.pop(0)
        plain = current.type.plain
        if plain.kind not in (TypeKind.STRUCTURE, TypeKind.UNION):
            continue
        for member in plain.members:
            seen += 1
            if member.offset is None or seen > SEARCHED:
                continue
            if member.name == name and not member.is_base:
                return of_member(current, member)
            if (member.is_base or not member.name) and depth < SEARCH_DEPTH:
                waiting.append((of_member(current, member), depth + 1))
    return None


def of_member(part: Part, member: Member) -> Part:
    """Return a member of a structure; a bit field is widened to its own bytes."""
    storage = part.storage.part(member.offset or 0)
    if member.bits:
        value = part.decoder.member(member, part.storage, 0)
        if not isinstance(value.content, int):
            raise Unfit(member.name)
        size = part.decoder.bits // 8
        storage = part.decoder.constant(int(value.content), size)
        return Part(part.decoder, Type(TypeKind.INTEGER, member.type.name, size), storage)
    return Part(part.decoder, member.type, storage)


def bases_of(part: Part) -> Iterator[Part]:
    """Yield the base classes of a structure."""
    for member in part.type.plain.members:
        if member.is_base and member.offset is not None:
            yield of_member(part, member)


def alignment(type: Type, depth: int = 0) -> int:
    """Return the alignment of a type, by its members; at most 16."""
    plain = type.plain
    if plain.alignment:
        return plain.alignment
    plain.alignment = 1  # of a type inside itself
    if plain.kind in (TypeKind.STRUCTURE, TypeKind.UNION):
        inner = plain.members if depth <= SEARCH_DEPTH else ()
        plain.alignment = max((alignment(member.type, depth + 1) for member in inner), default=1)
    elif plain.kind is TypeKind.ARRAY:
        plain.alignment = alignment(plain.target, depth + 1) if depth <= SEARCH_DEPTH else 1
    else:
        size = plain.size or 1
        plain.alignment = min(16, size) if not size & size - 1 else 8
    return plain.alignment


def aligned(offset: int, type: Type) -> int:
    """Return the offset at or after `offset` at which a type is aligned."""
    size = alignment(type)
    return -(-offset // size) * size


def size_of(type: Type) -> int:
    """Return the size of a type in bytes. Raises Unfit if it is unknown or 0."""
    size = type.plain.size
    if not size:
        raise Unfit(type.name)
    return size


def sequence(part: Part, head: str, elements: Iterable[Value], count: int, *, numbered: bool = False) -> Value:
    """Return a container of `count` elements: `head = {1, 2}`, or `head = {[0] = 1, [1] = 2}` if `numbered`."""
    limit = part.decoder.limits.elements
    fields: list[Field] = []
    for element in elements:
        if len(fields) >= limit:
            break
        fields.append(Field("", element))
    is_cut = len(fields) < count
    texts = [field.value.text for field in fields]
    if numbered:
        texts = [f"[{index}] = {text}" for index, text in enumerate(texts)]
        inner = ", ".join(texts) + ("..." if is_cut else "")
    else:
        inner = joined(texts, is_cut=is_cut)
    text = f"{head} = {{{inner}}}" if fields or is_cut else head
    return Value(ValueKind.ARRAY, part.type.name, text, fields=tuple(fields), length=count, is_cut=is_cut)


def mapping(part: Part, head: str, pairs: Iterable[tuple[Value, Value]], count: int) -> Value:
    """Return a map of `count` pairs: `head = {[1] = "one"}`."""
    limit = part.decoder.limits.elements
    fields: list[Field] = []
    for key, value in pairs:
        if len(fields) >= 2 * limit:
            break
        fields += [Field("", key), Field("", value)]
    is_cut = len(fields) < 2 * count
    texts = [f"[{fields[i].value.text}] = {fields[i + 1].value.text}" for i in range(0, len(fields), 2)]
    inner = ", ".join(texts) + ("..." if is_cut else "")
    text = f"{head} = {{{inner}}}" if fields or is_cut else head
    return Value(ValueKind.MAP, part.type.name, text, fields=tuple(fields), length=count, is_cut=is_cut)


def named(part: Part, text: str, parts: Sequence[tuple[str, Value]], *, label: str = "") -> Value:
    """Return a structure whose text is given."""
    fields = tuple(Field(name, value) for name, value in parts)
    return Value(ValueKind.STRUCTURE, part.type.name, text, fields=fields, label=label)


def run(part: Part, element: Type, address: int, count: int, depth: int) -> Iterator[Value]:
    """Yield elements that follow each other in memory."""
    size = element.plain.size or 0
    for index in range(count):
        yield part.at(address + index * size, element).value(depth)


def checked_count(count: int, part: Part) -> int:
    """Return a number of elements. Raises Unfit if it cannot be one."""
    if not 0 <= count < 1 << part.decoder.bits - 1:
        raise Unfit(f"{count} elements")
    return count


def text_at(part: Part, address: int, length: int, character: Type) -> Value:
    """Return a text of a known length in memory."""
    return part.decoder.text_of_length(part.type.name, address, length, character)
