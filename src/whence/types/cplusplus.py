"""Values of C++'s library: libstdc++ (namespace std) and libc++ (std::__1), by the names of their members.

Texts are those of libstdc++'s printers for gdb, for both libraries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from whence.types.model import Language, Type, TypeKind, Value, ValueKind
from whence.types.parts import (
    Part,
    Unfit,
    aligned,
    bases_of,
    checked_count,
    find_member,
    mapping,
    named,
    run,
    sequence,
    size_of,
    text_at,
)

if TYPE_CHECKING:
    pass

TREE_DEPTH = 128  # steps from a node of a balanced tree to the next
STEPS_A_PART = 16  # links of trees
LONGEST_TUPLE = 64
DYNAMIC_EXTENT = (1 << 32) - 1  # of a span on 32-bit machines, and larger on others
BITSET_BYTES = 1 << 16  # of the largest bitset that is shown by its bits
NODE_WORDS = 4  # of libstdc++'s tree nodes: colour, parent, left, right
DEQUE_BYTES = 512  # of a node of libstdc++'s deque
LIBCXX_DEQUE_BYTES, LIBCXX_DEQUE_LEAST, LIBCXX_DEQUE_LARGE = 4096, 16, 256

Show = Callable[[Part, str, int], Value]


def show(part: Part, depth: int) -> Value | None:
    """Return the value of a class of the library; None for other types. Raises Unfit, NoValue."""
    plain = part.type.plain
    scope = plain.scope
    if plain.language is not Language.CPP or not scope or scope[0] != "std":
        return None
    own = plain.name[len("::".join(scope)) + 2 :]
    head = own.partition("<")[0]
    shown = SHOWN.get(head)
    return None if shown is None else shown(part, head, depth)


def title(part: Part, head: str, *, inline: bool = False) -> str:
    """Return the name of a container without its arguments: `std::vector`, `std::__cxx11::list`."""
    scope = part.type.plain.scope
    names = [name for name in scope if inline or not name.startswith("__")] + [head]
    return "::".join(names)


def parameter(type: Type, *names: str) -> Type:
    """Return the first of some parameters of a template that it has. Raises Unfit."""
    _ = type.plain.members
    for name in names:
        argument = type.plain.parameters.get(name)
        if argument is not None:
            return argument
    raise Unfit(f"{type.name} has no parameter {names[0]}")


def short(type: Type) -> str:
    """Return the name of a type as an argument of a template."""
    name = type.name
    for scope in ("std::__cxx11::", "std::__1::"):
        for letters, alias in (("char", "string"), ("wchar_t", "wstring")):
            prefix = f"{scope}basic_string<{letters}, "
            if name.startswith(prefix):
                return f"std::{alias}"
    return name.replace("std::__1::", "std::")


# texts


def string(part: Part, head: str, depth: int) -> Value:
    character = parameter(part.type, "_CharT")
    if part.has("_M_dataplus"):
        holder = part.member("_M_dataplus")
        if holder.type.plain.is_declaration:  # clang describes it where the library was built
            pointer = part.decoder.address(holder.storage)
        else:
            pointer = holder.member("_M_p").number()
        if part.has("_M_string_length"):
            length = part.member("_M_string_length").number()
        else:  # the string of before C++11: the length is before the characters
            word = part.decoder.bits // 8
            length = part.decoder.number(part.at(pointer - 3 * word, character).storage, word)
        return text_at(part, pointer, length, character)
    rep = find_member(part, "__r_") or part
    rep = rep.member("__value_") if not rep.has("__l") and rep.has("__value_") else rep
    long, small = rep.member("__l"), rep.member("__s")
    if small.has("__is_long_") and small.member("__is_long_").number():
        return text_at(part, long.member("__data_").number(), long.member("__size_").number(), character)
    data = small.member("__data_")
    address = data.storage.address
    length = small.member("__size_").number()
    if address is None:
        return part.decoder.text_of_bytes(part.type.name, data.storage.read(length * size_of(character)), character)
    return text_at(part, address, length, character)


def string_view(part: Part, head: str, depth: int) -> Value:
    pointer = part.member("_M_str" if part.has("_M_str") else "__data_")
    length = part.member("_M_len" if part.has("_M_len") else "__size_")
    return text_at(part, pointer.number(), length.number(), pointer.type.plain.target)


# sequences


def vector(part: Part, head: str, depth: int) -> Value:
    element = parameter(part.type, "_Tp")
    if element.plain.kind is TypeKind.BOOLEAN and (part.has("_M_impl") or part.has("__size_")):
        return bits(part, element)
    if part.has("_M_impl"):
        impl = part.member("_M_impl")
        start, end, limit = (impl.member(name).number() for name in ("_M_start", "_M_finish", "_M_end_of_storage"))
    else:
        start, end = part.member("__begin_").number(), part.member("__end_").number()
        cap = part.member("__end_cap_" if part.has("__end_cap_") else "__cap_")
        limit = (cap.member("__value_") if cap.type.plain.kind is TypeKind.STRUCTURE else cap).number()
    size = size_of(element)
    if end < start or limit < end or (end - start) % size:
        raise Unfit("a vector ends before its start")
    count = (end - start) // size
    text = f"std::vector of length {count}, capacity {(limit - start) // size}"
    return sequence(part, text, run(part, element, start, count, depth + 1), count)


def bits(part: Part, element: Type) -> Value:
    """Return a vector<bool>."""
    word = part.decoder.bits // 8
    if part.has("_M_impl"):
        impl = part.member("_M_impl")
        first, last = impl.member("_M_start"), impl.member("_M_finish")
        start, end = first.member("_M_p").number(), last.member("_M_p").number()
        offset = first.member("_M_offset").number()
        count = (end - start) * 8 + last.member("_M_offset").number() - offset
        limit = impl.member("_M_end_of_storage").number()
        capacity = max(0, limit - start) * 8
    else:
        start, offset, count = part.member("__begin_").number(), 0, part.member("__size_").number()
        cap = part.member("__cap_alloc_" if part.has("__cap_alloc_") else "__cap_")
        words = (cap.member("__value_") if cap.type.plain.kind is TypeKind.STRUCTURE else cap).number()
        capacity = words * 8 * word
    count = checked_count(count, part)
    shown = min(count, part.decoder.limits.elements)
    first_byte = start + offset // 8
    data = part.at(first_byte, element).storage.read((offset % 8 + shown + 7) // 8) if shown else b""
    flags = (data[(offset % 8 + i) // 8] >> (offset + i) % 8 & 1 for i in range(shown))
    values = (Value(ValueKind.BOOLEAN, "bool", "true" if flag else "false", bool(flag)) for flag in flags)
    return sequence(part, f"std::vector<bool> of length {count}, capacity {capacity}", values, count)


def linked_list(part: Part, head: str, depth: int) -> Value:
    element = parameter(part.type, "_Tp")
    word = part.decoder.bits // 8
    is_double = head == "list"
    offset = aligned(2 * word if is_double else word, element)
    if part.has("_M_impl"):
        node = part.member("_M_impl", "_M_node" if is_double else "_M_head")
        first = node.member("_M_next").number()
    elif is_double:
        node = part.member("__end_")
        first = node.member("__next_").number()
    else:
        node = part.member("__before_begin_")
        inner = node.member("__value_") if node.has("__value_") else node
        first = inner.member("__next_").number()
    end = node.storage.address if is_double else 0

    def nodes() -> Iterator[int]:
        address = first
        for _ in range(part.decoder.limits.elements + 1):
            if address in (end, 0):
                return
            yield address
            address = part.decoder.address(part.at(address + (word if is_cxx and is_double else 0), element).storage)

    is_cxx = not part.has("_M_impl")
    addresses = [*nodes()]
    values = (part.at(address + offset, element).value(depth + 1) for address in addresses)
    name = title(part, head, inline=not is_cxx)
    if not addresses:
        return sequence(part, f"empty {name}", (), 0)
    return sequence(part, name, values, len(addresses), numbered=True)


def deque(part: Part, head: str, depth: int) -> Value:
    element = parameter(part.type, "_Tp")
    size = size_of(element)
    word = part.decoder.bits // 8
    if part.has("_M_impl"):
        start, finish = part.member("_M_impl", "_M_start"), part.member("_M_impl", "_M_finish")
        block = max(1, DEQUE_BYTES // size)
        node, cur = start.member("_M_node").number(), start.member("_M_cur").number()
        last_node, last = finish.member("_M_node").number(), finish.member("_M_cur").number()
        offset = (cur - start.member("_M_first").number()) // size
        count = (last_node - node) // word * block - offset + (last - finish.member("_M_first").number()) // size
    else:
        block = LIBCXX_DEQUE_BYTES // size if size < LIBCXX_DEQUE_LARGE else LIBCXX_DEQUE_LEAST
        node, offset = part.member("__map_", "__begin_").number(), part.member("__start_").number()
        length = part.member("__size_")
        count = (length.member("__value_") if length.type.plain.kind is TypeKind.STRUCTURE else length).number()
    count = checked_count(count, part)

    def elements() -> Iterator[Value]:
        for index in range(offset, offset + count):
            pointer = part.decoder.address(part.at(node + index // block * word, element).storage)
            yield part.at(pointer + index % block * size, element).value(depth + 1)

    if not count:
        return sequence(part, "empty std::deque", (), 0)
    return sequence(part, f"std::deque with {elements_word(count)}", elements(), count)


def elements_word(count: int) -> str:
    return f"{count} element{'' if count == 1 else 's'}"


# trees and tables


def tree(part: Part, head: str, depth: int) -> Value:
    word = part.decoder.bits // 8
    if part.has("_M_t"):
        inner = part.member("_M_t")
        value = parameter(inner.type, "_Val")
        impl = inner.member("_M_impl")
        count = impl.member("_M_node_count").number()
        header = impl.member("_M_header")
        first, end = header.member("_M_left").number(), header.storage.address
        offset = aligned(NODE_WORDS * word, value)
        up, left, right = word, 2 * word, 3 * word
    else:
        inner = part.member("__tree_")
        value = parameter(inner.type, "_Tp")
        first = inner.member("__begin_node_").number()
        length = inner.member("__pair3_" if inner.has("__pair3_") else "__size_")
        count = (length.member("__value_") if length.type.plain.kind is TypeKind.STRUCTURE else length).number()
        root = inner.member("__pair1_" if inner.has("__pair1_") else "__end_node_")
        end = root.storage.address
        offset = aligned(3 * word + 1, value)
        left, right, up = 0, word, 2 * word
    count = checked_count(count, part)
    links = left, right, up
    addresses = (address + offset for address in nodes_of_tree(part, first, end, count, links))
    title_ = f"{title(part, head)} with {elements_word(count)}" if count else f"empty {title(part, head)}"
    title_ = title_ if count else f"{title(part, head)} with 0 elements"
    return keyed(part, title_, addresses, value, count, depth, is_map=head.endswith("map"))


def nodes_of_tree(part: Part, first: int, end: int | None, count: int, links: tuple[int, int, int]) -> Iterator[int]:
    """Yield the nodes of a binary tree in order. `links` are offsets of the left and right child and the parent."""
    left, right, up = links

    steps = 0

    def link(node: int, offset: int) -> int:
        nonlocal steps
        steps += 1
        if not steps % STEPS_A_PART:
            part.decoder.spend(1)
        return part.decoder.address(part.at(node + offset, part.type).storage)

    node = first
    for _ in range(min(count, part.decoder.limits.elements)):
        if node in (0, end):
            return
        yield node
        following = link(node, right)
        if following:
            for _ in range(TREE_DEPTH):
                lower = link(following, left)
                if not lower:
                    break
                following = lower
            node = following
            continue
        for _ in range(TREE_DEPTH):
            above = link(node, up)
            if above == end or link(above, right) != node:
                node = above
                break
            node = above


def table(part: Part, head: str, depth: int) -> Value:
    word = part.decoder.bits // 8
    if part.has("_M_h"):
        inner = part.member("_M_h")
        value = parameter(inner.type, "_Value")
        first = inner.member("_M_before_begin", "_M_nxt").number()
        count = inner.member("_M_element_count").number()
        offset = aligned(word, value)
    else:
        inner = part.member("__table_")
        value = parameter(inner.type, "_Tp")
        node = inner.member("__p1_" if inner.has("__p1_") else "__first_node_")
        first = (node.member("__value_") if node.has("__value_") else node).member("__next_").number()
        length = inner.member("__p2_" if inner.has("__p2_") else "__size_")
        count = (length.member("__value_") if length.type.plain.kind is TypeKind.STRUCTURE else length).number()
        offset = aligned(2 * word, value)
    count = checked_count(count, part)

    def addresses() -> Iterator[int]:
        node = first
        for _ in range(min(count, part.decoder.limits.elements)):
            if not node:
                return
            yield node + offset
            node = part.decoder.address(part.at(node, part.type).storage)

    text = f"{title(part, head)} with {elements_word(count)}"
    return keyed(part, text, addresses(), value, count, depth, is_map=head.endswith("map"))


def keyed(
    part: Part, text: str, addresses: Iterator[int], value: Type, count: int, depth: int, *, is_map: bool
) -> Value:
    """Return a map or a set by the addresses of its elements."""
    if not is_map:
        values = (part.at(address, value).value(depth + 1) for address in addresses)
        return sequence(part, text, values, count, numbered=True)

    def pairs() -> Iterator[tuple[Value, Value]]:
        for address in addresses:
            pair = part.at(address, value)
            for name in ("__cc_", "__cc"):
                pair = pair.member(name) if pair.has(name) else pair
            yield pair.member("first").value(depth + 1), pair.member("second").value(depth + 1)

    return mapping(part, text, pairs(), count)


# pointers


def unique_pointer(part: Part, head: str, depth: int) -> Value:
    target = parameter(part.type, "_Tp")
    if part.has("_M_t"):
        pointer = head_of_tuple(part.member("_M_t"))
    else:
        pointer = part.member("__ptr_")
        pointer = pointer.member("__value_") if pointer.type.plain.kind is TypeKind.STRUCTURE else pointer
    value = pointer.value(depth + 1)
    return named(part, f"std::unique_ptr<{short(target)}> = {{get() = {value.text}}}", [("get()", value)])


def head_of_tuple(part: Part) -> Part:
    """Return the first element of the std::tuple inside a std::unique_ptr."""
    for _ in range(4):
        if part.has("_M_t"):
            part = part.member("_M_t")
    heads = elements_of_tuple(part)
    if not heads:
        raise Unfit("no tuple")
    return heads[0]


def shared_pointer(part: Part, head: str, depth: int) -> Value:
    target = parameter(part.type, "_Tp")
    is_gnu = part.has("_M_ptr")
    value = part.member("_M_ptr" if is_gnu else "__ptr_").value(depth + 1)
    control = part.member("_M_refcount", "_M_pi") if is_gnu else part.member("__cntrl_")
    state = "empty"
    if control.number():
        counts = part.at(control.number(), control.type.plain.target)
        if is_gnu:
            used, weak = (counts.member(name).number(signed=True) for name in ("_M_use_count", "_M_weak_count"))
        else:  # both are one less; they follow the pointer to virtual functions
            word, size = part.decoder.bits // 8, part.decoder.bits // 8
            used, weak = (
                part.decoder.number(counts.storage.part(offset), size, signed=True) + 1 for offset in (word, 2 * word)
            )
        state = f"use count {used}, weak count {weak - 1}" if used else f"expired, weak count {weak}"
    text = f"std::{head}<{short(target)}> ({state}) = {{get() = {value.text}}}"
    return named(part, text, [("get()", value)], label=state)


# sums and products


def optional(part: Part, head: str, depth: int) -> Value:
    target = parameter(part.type, "_Tp")
    if part.has("_M_payload"):
        payload = part.member("_M_payload")
        engaged = payload.member("_M_engaged").number()
        content = payload.member("_M_payload", "_M_value")
    else:
        engaged, content = part.member("__engaged_").number(), part.member("__val_")
    name = f"std::optional<{short(target)}>"
    if not engaged:
        return Value(ValueKind.VARIANT, part.type.name, f"{name} [no contained value]", label="none")
    value = content._replace(type=target).value(depth + 1)
    shown = named(part, f"{name} = {{[contained value] = {value.text}}}", [("value", value)], label="some")
    return Value(ValueKind.VARIANT, part.type.name, shown.text, label="some", fields=shown.fields)


def variant(part: Part, head: str, depth: int) -> Value:
    arguments = part.type.plain.name
    inside = arguments[arguments.find("<") + 1 : -1] if "<" in arguments else ""
    is_gnu = part.has("_M_index")
    impl = part if is_gnu else part.member("__impl_")
    raw = impl.member("_M_index" if is_gnu else "__index")
    index = raw.number()
    name = f"std::variant<{short_list(inside)}>"
    if index == (1 << 8 * size_of(raw.type)) - 1:
        return Value(ValueKind.VARIANT, part.type.name, f"{name} [no contained value]", label="none")
    if index >= LONGEST_TUPLE:
        raise Unfit("a variant with many alternatives")
    union = impl.member("_M_u" if is_gnu else "__data")
    for _ in range(index):
        union = union.member("_M_rest" if is_gnu else "__tail")
    first = union.member("_M_first" if is_gnu else "__head")
    content = first.member("_M_storage" if is_gnu else "__value")
    if is_gnu and content.type.plain.name.find("__aligned_membuf") >= 0:
        content = content._replace(type=parameter(content.type, "_Tp"))
    value = content.value(depth + 1)
    fields = named(part, "", [("", value)]).fields
    text = f"{name} [index {index}] = {{{value.text}}}"
    return Value(ValueKind.VARIANT, part.type.name, text, label=str(index), fields=fields)


def short_list(arguments: str) -> str:
    """Return arguments of a template with std::string in place of its full name."""
    for scope in ("std::__cxx11::", "std::__1::"):
        for space in ("", " "):
            full = (
                f"{scope}basic_string<char, {scope.replace('__cxx11::', '')}char_traits<char>, "
                f"{scope.replace('__cxx11::', '')}allocator<char>{space}>"
            )
            arguments = arguments.replace(full, "std::string")
    return arguments.replace("std::__1::", "std::").strip()


def first_member(part: Part, *names: str) -> Part:
    """Return the first of some members that a part has. Raises Unfit."""
    name = next((name for name in names if part.has(name)), "")
    return part.member(name)


def view(part: Part, head: str, depth: int) -> Value:
    """Return a span or an initializer_list."""
    pointer = first_member(part, "_M_ptr", "_M_array", "__data_", "__begin_")
    extent = part.type.plain.name.rstrip("> UL").rpartition(", ")[2]
    if head == "span" and extent.isdecimal() and int(extent) < DYNAMIC_EXTENT:
        count = int(extent)
    elif part.has("_M_extent"):
        count = part.member("_M_extent", "_M_extent_value").number()
    else:
        count = first_member(part, "_M_len", "__size_").number()
    values = run(part, pointer.type.plain.target, pointer.number(), checked_count(count, part), depth + 1)
    return sequence(part, f"std::{head} of length {count}", values, count)


def adapter(part: Part, head: str, depth: int) -> Value:
    """Return a stack or a queue by the container that has its elements."""
    value = part.member("c").value(depth + 1)
    return named(part, f"std::{head} wrapping: {value.text}", [("c", value)])


def atomic(part: Part, head: str, depth: int) -> Value:
    holder = next((part.member(name) for name in ("_M_base", "_M_b", "__a_") if part.has(name)), part)
    value = first_member(holder, "_M_i", "_M_p", "_M_fp", "__a_value").value(depth + 1)
    return named(part, f"std::atomic<{short(parameter(part.type, '_Tp'))}> = {{ {value.text} }}", [("", value)])


def bit_set(part: Part, head: str, depth: int) -> Value:
    """Return the bits of a bitset that are set."""
    first_member(part, "_M_w", "__first_")
    word, size = part.decoder.bits // 8, size_of(part.type)
    if size > BITSET_BYTES:
        raise Unfit("a large bitset")
    data = part.storage.read(size)
    words = (int.from_bytes(data[start : start + word], part.decoder.order) for start in range(0, size, word))
    indexes = [index * 8 * word + bit for index, bits in enumerate(words) for bit in range(8 * word) if bits >> bit & 1]
    is_set = Value(ValueKind.NUMBER, "int", "1", 1)
    pairs = ((Value(ValueKind.NUMBER, "int", str(index), index), is_set) for index in indexes)
    return mapping(part, "std::bitset", pairs, len(indexes))


def file_path(part: Part, head: str, depth: int) -> Value:
    return first_member(part, "_M_pathname", "__pn_").value(depth)


def pair(part: Part, head: str, depth: int) -> Value:
    values = [(name, part.member(name).value(depth + 1)) for name in ("first", "second")]
    return named(part, "{" + ", ".join(f"{name} = {value.text}" for name, value in values) + "}", values)


def tuple_(part: Part, head: str, depth: int) -> Value:
    if part.has("__base_"):
        leaves = [*bases_of(part.member("__base_"))][:LONGEST_TUPLE]
        elements = [leaf.member("__value_") if leaf.has("__value_") else leaf for leaf in leaves]
    else:
        elements = elements_of_tuple(part)
    values = [element.value(depth + 1) for element in elements]
    texts = [f"[{index}] = {value.text}" for index, value in enumerate(values, 1)]
    text = f"std::tuple containing = {{{', '.join(texts)}}}" if values else "empty std::tuple"
    return named(part, text, [(str(index), value) for index, value in enumerate(values, 1)])


def elements_of_tuple(part: Part) -> list[Part]:
    """Return the elements of libstdc++'s tuple: each level has one, and the levels for the others as a base class."""
    elements = []
    levels = [part]
    for _ in range(LONGEST_TUPLE):
        following = None
        for level in levels:
            for base in bases_of(level):
                name = base.type.plain.name
                if "_Head_base<" in name:
                    head = find_member(base, "_M_head_impl")
                    elements.append(next(bases_of(base), base) if head is None else head)
                elif "_Tuple_impl<" in name:
                    following = base
        if following is None:
            break
        levels = [following]
    return elements


SHOWN: dict[str, Show] = {
    "basic_string": string,
    "basic_string_view": string_view,
    "vector": vector,
    "list": linked_list,
    "forward_list": linked_list,
    "deque": deque,
    **dict.fromkeys(("map", "set", "multimap", "multiset"), tree),
    **dict.fromkeys(("unordered_map", "unordered_set", "unordered_multimap", "unordered_multiset"), table),
    "unique_ptr": unique_pointer,
    "shared_ptr": shared_pointer,
    "weak_ptr": shared_pointer,
    "optional": optional,
    "variant": variant,
    **dict.fromkeys(("span", "initializer_list"), view),
    **dict.fromkeys(("stack", "queue", "priority_queue"), adapter),
    "atomic": atomic,
    "bitset": bit_set,
    "path": file_path,
    "pair": pair,
    "tuple": tuple_,
}
