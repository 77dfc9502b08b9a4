"""Types from debug info (DWARF 5, chapter 5): names as in the source, members, enumerators, bounds of arrays.

A type is read when it is needed and kept by its DIE. Chains of qualifiers and typedefs, depths of names, and numbers of
members and enumerators are bounded; a type beyond the bounds is unknown or lacks the rest.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from whence._base.lru import Lru
from whence.dwarf.kernels import constants
from whence.dwarf.kernels.units import ADDRESS_SIZE, LANGUAGE
from whence.types.model import UNKNOWN, VOID, Bound, Language, Member, Type, TypeKind, Variant, Variants

if TYPE_CHECKING:
    from whence.dwarf.die_reader import Die, DieReader

TYPES_KEPT = 1 << 16
CHAIN = 32  # of typedefs and qualifiers
NESTED = 32  # types that are read at once, as a type's name contains others
MOST_PARAMETERS = 16  # in the name of a function's type
MOST_MEMBERS = 4096  # of a structure, enumerators of an enumeration
MOST_DIMENSIONS = 16
LONGEST_NAME = 1000
SIZE_LIMIT = 1 << 64
HALF = 1 << 63

LANGUAGES = {
    constants.DW_LANG_Rust: Language.RUST,
    constants.DW_LANG_Go: Language.GO,
    **dict.fromkeys(
        (
            constants.DW_LANG_C_plus_plus, constants.DW_LANG_C_plus_plus_11, constants.DW_LANG_C_plus_plus_14,
            constants.DW_LANG_C_plus_plus_17, constants.DW_LANG_C_plus_plus_20, constants.DW_LANG_C_plus_plus_23,
        ),
        Language.CPP,
    ),
}  # fmt: skip
ENCODINGS = {
    constants.DW_ATE_boolean: TypeKind.BOOLEAN,
    constants.DW_ATE_float: TypeKind.FLOAT,
    constants.DW_ATE_complex_float: TypeKind.COMPLEX,
    constants.DW_ATE_UTF: TypeKind.CHARACTER,
}
QUALIFIERS = {
    constants.DW_TAG_const_type: "const",
    constants.DW_TAG_volatile_type: "volatile",
    constants.DW_TAG_restrict_type: "restrict",
    constants.DW_TAG_atomic_type: "_Atomic",
}
C_KEYWORDS = {
    constants.DW_TAG_structure_type: "struct",
    constants.DW_TAG_union_type: "union",
    constants.DW_TAG_enumeration_type: "enum",
}
REFERENCES = {constants.DW_TAG_reference_type: "&", constants.DW_TAG_rvalue_reference_type: "&&"}
STRUCTURES = (constants.DW_TAG_structure_type, constants.DW_TAG_class_type, constants.DW_TAG_interface_type)
FIRST_INDEX_1 = frozenset({  # languages whose arrays begin at 1
    constants.DW_LANG_Cobol74, constants.DW_LANG_Cobol85, constants.DW_LANG_Fortran77, constants.DW_LANG_Pascal83,
    constants.DW_LANG_PLI,
})  # fmt: skip


def signed(value: int) -> int:
    """Return a 64-bit number as a signed one."""
    return value - SIZE_LIMIT if value >= HALF else value


class TypeReader:
    """Reads the types of one file's debug info."""

    def __init__(self, dies: DieReader) -> None:
        self.dies = dies
        self._types: Lru[int, Type] = Lru(TYPES_KEPT)
        self._reading: set[int] = set()

    def language_of(self, die: Die) -> Language:
        """Return the language of the unit of a DIE."""
        return LANGUAGES.get(self.dies.unit_value(die, LANGUAGE), Language.C)

    def type_of(self, die: Die) -> Type:
        """Return the type that a DIE refers to; void if it refers to none."""
        key = self.dies.target(die, constants.DW_AT_type)
        if key:
            return self.type_at(key)
        return UNKNOWN if constants.DW_AT_type in die.attributes else VOID

    def type_at(self, key: int) -> Type:
        """Return the type of a DIE; UNKNOWN if it cannot be read."""
        cached = self._types.get(key)
        if cached is not None:
            return cached
        if key in self._reading or len(self._reading) >= NESTED:  # a type that is its own element, or nearly
            return UNKNOWN
        self._reading.add(key)
        try:
            die = self.dies.die(key)
            cached = UNKNOWN if die is None else self._read(die)
        finally:
            self._reading.discard(key)
        self._types[key] = cached
        return cached

    def _read(self, die: Die) -> Type:
        signature = self.dies.target(die, constants.DW_AT_signature)
        if signature and signature != die.key:
            full = self.dies.die(signature)
            die = full if full is not None and constants.DW_AT_signature not in full.attributes else die
        tag = die.tag
        made = Type(TypeKind.UNKNOWN, "", die.number(constants.DW_AT_byte_size), key=die.key, tag=tag)
        made.language = self.language_of(die)
        own = self.dies.name(die)[:LONGEST_NAME]
        made.name = own
        if tag == constants.DW_TAG_base_type:
            self._read_base(die, made)
        elif tag in QUALIFIERS or tag == constants.DW_TAG_typedef:
            self._read_alias(die, made)
        elif tag in (constants.DW_TAG_pointer_type, *REFERENCES):
            made.kind = TypeKind.REFERENCE if tag in REFERENCES else TypeKind.POINTER
            made.size = made.size or self.dies.unit_value(die, ADDRESS_SIZE)
            made.define(target=partial(self.type_of, die))
        elif tag == constants.DW_TAG_ptr_to_member_type:
            made.kind = TypeKind.MEMBER_POINTER
            target = self.type_of(die)
            address = self.dies.unit_value(die, ADDRESS_SIZE)
            made.size = made.size or (2 * address if target.plain.kind is TypeKind.FUNCTION else address)
            made.define(target=partial(self.type_of, die))
            containing = self.dies.target(die, constants.DW_AT_containing_type)
            if containing:
                made.containing = partial(self.type_at, containing)
        elif tag in STRUCTURES or tag == constants.DW_TAG_union_type:
            made.kind = TypeKind.UNION if tag == constants.DW_TAG_union_type else TypeKind.STRUCTURE
            made.is_declaration = constants.DW_AT_declaration in die.attributes
            made.define(members=partial(self._members_of, die, made))
        elif tag == constants.DW_TAG_enumeration_type:
            self._read_enumeration(die, made)
        elif tag == constants.DW_TAG_array_type:
            return self._read_array(die, made)
        elif tag == constants.DW_TAG_subroutine_type:
            made.kind = TypeKind.FUNCTION
            made.define(target=partial(self.type_of, die))
        elif tag == constants.DW_TAG_unspecified_type:
            made.kind = TypeKind.VOID
        if own and made.language in (Language.CPP, Language.RUST) and tag not in QUALIFIERS:
            made.scope = tuple(self.dies.scope_names(die))
        if not made.name:
            made.name = self._spelled(die, made)
        elif made.language is Language.C and tag in C_KEYWORDS:
            made.name = f"{C_KEYWORDS[tag]} {own}"
        elif made.scope:
            made.name = "::".join([*(name or "(anonymous namespace)" for name in made.scope), own])
        made.name = made.name[:LONGEST_NAME]
        return made

    def _read_base(self, die: Die, made: Type) -> None:
        made.encoding = die.number(constants.DW_AT_encoding) or 0
        made.kind = ENCODINGS.get(made.encoding, TypeKind.INTEGER)
        if made.size == 0:  # Rust's () and !, C's void as a base type
            made.kind = TypeKind.VOID
        elif made.encoding in (constants.DW_ATE_signed_char, constants.DW_ATE_unsigned_char):
            made.kind = TypeKind.CHARACTER

    def _read_alias(self, die: Die, made: Type) -> None:
        """Read a typedef or a qualified type."""
        plain: Die | None = die
        for _ in range(CHAIN):
            if plain is None or (plain.tag not in QUALIFIERS and plain.tag != constants.DW_TAG_typedef):
                break
            key = self.dies.target(plain, constants.DW_AT_type)
            following = self.dies.die(key) if key else None
            if following is None:
                target = UNKNOWN if constants.DW_AT_type in plain.attributes else VOID
                made.kind, made.size = target.kind, None
                made.define(target=partial(self.type_of, die), plain=partial(itself, target))
                return
            plain = following
        else:
            made.kind = TypeKind.UNKNOWN
            return
        assert plain is not None
        target = self.type_at(plain.key)
        made.kind, made.size, made.encoding = target.kind, target.size, target.encoding
        made.define(target=partial(self.type_of, die), plain=partial(itself, target))

    def _read_enumeration(self, die: Die, made: Type) -> None:
        made.kind = TypeKind.ENUMERATION
        underlying = self.type_of(die).plain
        if made.size is None:
            made.size = underlying.size
        made.encoding = underlying.encoding
        made.is_scoped = bool(die.number(constants.DW_AT_enum_class))
        children = (key for key, tag in self.dies.below(die) if tag == constants.DW_TAG_enumerator)
        enumerators = []
        for key in islice(children, MOST_MEMBERS):
            child = self.dies.die(key)
            value = child.number(constants.DW_AT_const_value) if child is not None else None
            if child is not None and value is not None:
                bits = 8 * (made.size or 8)
                enumerators.append((self.dies.name(child), value & (1 << bits) - 1))
        made.enumerators = tuple(enumerators)

    def _read_array(self, die: Die, made: Type) -> Type:
        """Return an array type; one of several dimensions is an array of arrays."""
        children = (key for key, tag in self.dies.below(die) if tag in DIMENSIONS)
        dimensions = [self.dies.die(key) for key in islice(children, MOST_DIMENSIONS)]
        element = self.type_of(die)
        is_vector = bool(die.number(constants.DW_AT_GNU_vector))
        inner = element
        for index, dimension in enumerate(reversed(dimensions or [None])):
            is_outer = index == max(0, len(dimensions) - 1)
            array = made if is_outer else Type(TypeKind.ARRAY, "", None, key=die.key, tag=die.tag)
            array.kind, array.language = TypeKind.ARRAY, made.language
            array.bound = (
                Bound() if dimension is None else self._bound_of(dimension, self.dies.unit_value(die, LANGUAGE))
            )
            array.encoding = 1 if is_vector else 0
            of = inner
            array.define(target=partial(itself, of))
            stride = die.number(constants.DW_AT_byte_stride)
            if stride is not None and stride != of.size:
                return UNKNOWN
            if not (is_outer and array.size is not None):
                size = of.plain.size if of.plain.size is not None else None
                count = array.bound.number
                array.size = None if size is None or count is None or size * count >= SIZE_LIMIT else size * count
            if not array.name:
                array.name = array_name(array)[:LONGEST_NAME]
            inner = array
        return inner

    def _bound_of(self, dimension: Die, language: int) -> Bound:
        if dimension.tag == constants.DW_TAG_enumeration_type:
            return Bound(self.type_at(dimension.key).size and len(self.type_at(dimension.key).enumerators))
        lower_value = dimension.number(constants.DW_AT_lower_bound)
        lower = signed(lower_value) if lower_value is not None else int(language in FIRST_INDEX_1)
        for name, adds in ((constants.DW_AT_count, 0), (constants.DW_AT_upper_bound, 1 - lower)):
            if name not in dimension.attributes:
                continue
            value = dimension.number(name)
            if value is not None:
                count = signed(value) + adds if name != constants.DW_AT_count else value
                return Bound(count if 0 <= count < SIZE_LIMIT else 0)
            return Bound(None, self.dies.block(dimension, name), self.dies.target(dimension, name), adds)
        return Bound()

    # members

    def _members_of(self, die: Die, made: Type) -> tuple[Member, ...]:
        members: list[Member] = []
        for key, tag in islice(self.dies.below(die), 4 * MOST_MEMBERS):
            if tag == constants.DW_TAG_template_type_parameter:
                parameter = self.dies.die(key)
                if parameter is not None:
                    made.parameters[self.dies.name(parameter)] = self.type_of(parameter)
            elif tag == constants.DW_TAG_variant_part:
                part = self.dies.die(key)
                if part is not None:
                    made.variants = self._variants_of(part)
            elif tag in (constants.DW_TAG_member, constants.DW_TAG_inheritance) and len(members) < MOST_MEMBERS:
                child = self.dies.die(key)
                member = None if child is None else self._member(child, made)
                if member is not None:
                    members.append(member)
        return tuple(members)

    def _member(self, die: Die, structure: Type) -> Member | None:
        """Return a member or a base class; None for a static member."""
        if constants.DW_AT_external in die.attributes or constants.DW_AT_declaration in die.attributes:
            return None
        target = self.type_of(die)
        name = self.dies.name(die)
        is_base = die.tag == constants.DW_TAG_inheritance
        is_artificial = constants.DW_AT_artificial in die.attributes
        offset = die.number(constants.DW_AT_data_member_location)
        expression = self.dies.block(die, constants.DW_AT_data_member_location)
        if offset is None and not expression:
            offset = 0
        if offset is None and expression[:1] == bytes([constants.DW_OP_plus_uconst]):  # DWARF 2
            offset, expression = uleb_of(expression[1:]), b""
        bits = die.number(constants.DW_AT_bit_size)
        if bits is None or offset is None:
            return Member(name, target, offset, is_base, expression=expression, is_artificial=is_artificial)
        bit = die.number(constants.DW_AT_data_bit_offset)
        if bit is None:  # before DWARF 4: counted from the most significant bit of a unit of storage
            from_top = die.number(constants.DW_AT_bit_offset) or 0
            size = die.number(constants.DW_AT_byte_size) or target.plain.size or 0
            is_big = self.dies.elf.order == "big"
            bit = 8 * offset + (signed(from_top) if is_big else 8 * size - signed(from_top) - bits)
        else:
            bit += 8 * offset
        return Member(name, target, max(0, bit) // 8, bits=bits, bit=max(0, bit))

    def _variants_of(self, part: Die) -> Variants:
        """Return a variant part (Rust's enums; DWARF 5, section 5.7.10)."""
        discriminant = None
        key = self.dies.target(part, constants.DW_AT_discr)
        die = self.dies.die(key) if key else None
        if die is not None:
            discriminant = self._member(die, UNKNOWN)
        variants = []
        children = (key for key, tag in self.dies.below(part) if tag == constants.DW_TAG_variant)
        for key in islice(children, MOST_MEMBERS):
            variant = self.dies.die(key)
            if variant is None:
                continue
            value = variant.number(constants.DW_AT_discr_value)
            values = None if value is None else (value,)
            if constants.DW_AT_discr_value in variant.attributes and value is None:
                block = self.dies.block(variant, constants.DW_AT_discr_value)  # 128 bits
                values = (int.from_bytes(block, self.dies.elf.order),)
            for inner, tag in self.dies.below(variant):
                member_die = self.dies.die(inner) if tag == constants.DW_TAG_member else None
                member = None if member_die is None else self._member(member_die, UNKNOWN)
                if member is not None:
                    variants.append(Variant(values, member))
                    break
        return Variants(discriminant, tuple(variants))

    # names

    def _spelled(self, die: Die, made: Type) -> str:
        """Return the name of a type that has no name of its own, as C spells it."""
        target_key = self.dies.target(die, constants.DW_AT_type)
        if die.tag == constants.DW_TAG_subroutine_type:
            return self._spelled_function(die, "")
        if die.tag in QUALIFIERS:
            target = self._name_at(target_key) if target_key else "void"
            word = QUALIFIERS[die.tag]
            is_pointer = target.endswith(("*", "*const", "&"))
            return f"{target} {word}" if is_pointer else f"{word} {target}"
        if die.tag in (constants.DW_TAG_pointer_type, *REFERENCES):
            mark = REFERENCES.get(die.tag, "*")
            return self._spelled_pointer(target_key, mark)
        if die.tag == constants.DW_TAG_ptr_to_member_type:
            return f"{self._name_at(target_key) if target_key else 'void'} ::*"
        words = {TypeKind.UNION: "union {...}", TypeKind.ENUMERATION: "enum {...}", TypeKind.STRUCTURE: "struct {...}"}
        return words.get(made.kind, "?")

    def _spelled_pointer(self, key: int, mark: str) -> str:
        target = self.dies.die(key) if key else None
        if target is None:
            return f"void {mark}"
        if target.tag == constants.DW_TAG_subroutine_type and constants.DW_AT_name not in target.attributes:
            return self._spelled_function(target, mark)
        name = self._name_at(key)
        if target.tag == constants.DW_TAG_array_type and name.endswith("]") and " [" in name:
            head, _, tail = name.partition(" [")
            return f"{head} ({mark}) [{tail}"
        return f"{name}{mark}" if name.endswith(("*", "&")) else f"{name} {mark}"

    def _spelled_function(self, die: Die, mark: str) -> str:
        key = self.dies.target(die, constants.DW_AT_type)
        result = self._name_at(key) if key else "void"
        parameters = []
        for child_key, tag in islice(self.dies.below(die), MOST_PARAMETERS):
            child = self.dies.die(child_key)
            if tag == constants.DW_TAG_unspecified_parameters:
                parameters.append("...")
            elif tag == constants.DW_TAG_formal_parameter and child is not None:
                parameters.append(self._name_at(self.dies.target(child, constants.DW_AT_type)))
        if not parameters and constants.DW_AT_prototyped in die.attributes:
            parameters = ["void"]
        return f"{result} ({mark})({', '.join(parameters)})" if mark else f"{result} ({', '.join(parameters)})"

    def _name_at(self, key: int) -> str:
        """Return the name of a type within the name of another."""
        return self.type_at(key).name[:LONGEST_NAME] if key else "?"


DIMENSIONS = (constants.DW_TAG_subrange_type, constants.DW_TAG_enumeration_type, constants.DW_TAG_generic_subrange)


def itself(type: Type) -> Type:
    return type


def array_name(array: Type) -> str:
    """Return the name of an array type: its element's, with the dimensions after it."""
    count = "" if array.bound.number is None else str(array.bound.number)
    if array.language is Language.RUST:
        return f"[{array.target.name}; {count}]"
    if array.language is Language.GO:
        return f"[{count}]{array.target.name}"
    head, bracket, tail = array.target.name.partition(" [")
    inner = f" [{tail}" if bracket and array.target.kind is TypeKind.ARRAY else ""
    name = head if inner else array.target.name
    return f"{name} [{count}]{inner.lstrip()}"


def uleb_of(data: bytes) -> int | None:
    """Return the ULEB128 number that some bytes are; None if they are not one."""
    value = 0
    for index, byte in enumerate(data[:10]):
        value |= (byte & 0x7F) << 7 * index
        if not byte & 0x80:
            return value if index == len(data) - 1 else None
    return None
