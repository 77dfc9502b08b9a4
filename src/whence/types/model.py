"""Types of variables, and values: plain objects, without a reference to the files they were read from."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class TypeKind(enum.StrEnum):
    """The kind of a type, after typedefs and qualifiers."""

    INTEGER = "integer"
    CHARACTER = "character"
    BOOLEAN = "boolean"
    FLOAT = "float"
    COMPLEX = "complex"
    ENUMERATION = "enumeration"
    POINTER = "pointer"
    REFERENCE = "reference"
    MEMBER_POINTER = "member-pointer"
    STRUCTURE = "structure"
    UNION = "union"
    ARRAY = "array"
    FUNCTION = "function"
    VOID = "void"
    UNKNOWN = "unknown"


class Language(enum.StrEnum):
    """A language whose values are shown in a way of its own."""

    C = "c"
    CPP = "c++"
    RUST = "rust"
    GO = "go"


class Bound(NamedTuple):
    """The number of elements of a dimension of an array: a number, an expression, or the key of a variable's DIE.

    `adds` is what must be added to the value of the expression or variable. `number` is None if it is not stored.
    """

    number: int | None = None
    expression: bytes = b""
    variable: int = 0
    adds: int = 0


class Member(NamedTuple):
    """A member of a structure or union, or a base class (`is_base`).

    `offset` in bytes, None if it must be computed (virtual base classes). A bit field has `bits`, from bit
    `bit` of the structure, counted as the machine's byte order does.
    """

    name: str
    type: Type
    offset: int | None
    is_base: bool = False
    bits: int = 0
    bit: int = 0
    expression: bytes = b""
    is_artificial: bool = False


class Variant(NamedTuple):
    """A variant of a Rust enum: the values of the discriminant that select it (None: all others), and its member."""

    values: tuple[int, ...] | None
    member: Member


class Variants(NamedTuple):
    """The variant part of a structure: the member with the discriminant (None: a single variant), and the variants."""

    discriminant: Member | None
    variants: tuple[Variant, ...]


class Type:
    """A type. `name` is spelled as in the source, `plain` is the type without typedefs and qualifiers.

    Types that refer to others read them at first use, as types can be recursive.
    """

    __slots__ = (
        "_members", "_plain", "_target", "_variants", "alignment", "bound", "containing", "encoding", "enumerators",
        "is_declaration", "is_scoped", "key", "kind", "language", "name", "parameters", "scope", "size", "tag",
    )  # fmt: skip

    def __init__(
        self, kind: TypeKind, name: str, size: int | None, *, key: int = 0, tag: int = 0,
        language: Language = Language.C,
    ) -> None:  # fmt: skip
        self.kind, self.name, self.size, self.key, self.tag, self.language = kind, name, size, key, tag, language
        self.scope: tuple[str, ...] = ()  # names of the namespaces and types around it
        self.alignment = 0  # set at the first use (parts.py)
        self.encoding = 0  # DW_ATE_* of a base type
        self.bound = Bound()  # of an array
        self.enumerators: tuple[tuple[str, int], ...] = ()
        self.is_declaration = self.is_scoped = False
        self.containing: Callable[[], Type] | None = None  # the class of a pointer to a member
        self.parameters: dict[str, Type] = {}  # of a template, by name
        self._target: Type | Callable[[], Type] | None = None
        self._plain: Type | Callable[[], Type] | None = None
        self._members: tuple[Member, ...] | Callable[[], tuple[Member, ...]] = ()
        self._variants: Variants | None = None

    def __repr__(self) -> str:
        return f"<Type {self.name!r}, a {self.kind}>"

    def define(
        self,
        *,
        target: Callable[[], Type] | None = None,
        plain: Callable[[], Type] | None = None,
        members: Callable[[], tuple[Member, ...]] | None = None,
    ) -> Type:
        """Set how the types that this one refers to are read."""
        self._target, self._plain = target, plain
        if members is not None:
            self._members = members
        return self

    @property
    def target(self) -> Type:
        """The type that a pointer points to, of an array's elements, or that a function returns."""
        if callable(self._target):
            self._target = self._target()
        return self._target or VOID

    @property
    def plain(self) -> Type:
        """The type without typedefs and qualifiers."""
        if callable(self._plain):
            self._plain = self._plain()
        return self._plain or self

    @property
    def members(self) -> tuple[Member, ...]:
        """The members of a structure or union, base classes included, in order."""
        if callable(self._members):
            members = self._members
            self._members = ()
            self._members = members()
        return self._members

    @property
    def variants(self) -> Variants | None:
        """The variant part of a structure, which is read with its members."""
        _ = self.members
        return self._variants

    @variants.setter
    def variants(self, variants: Variants | None) -> None:
        self._variants = variants

    def member(self, name: str) -> Member | None:
        """Return the member of a structure with a name."""
        return next((member for member in self.plain.members if member.name == name), None)


VOID = Type(TypeKind.VOID, "void", None)
UNKNOWN = Type(TypeKind.UNKNOWN, "?", None)


class ValueKind(enum.StrEnum):
    """The kind of a value."""

    NUMBER = "number"  # integers, floats; `content` is the number
    CHARACTER = "character"  # `content` is its code
    BOOLEAN = "boolean"
    ENUMERATION = "enumeration"  # `content` is the number, `label` the enumerator
    POINTER = "pointer"  # `content` is the address; `target` the string or value shown with it
    REFERENCE = "reference"  # `content` is the address, `target` the value there
    STRING = "string"  # `content` is the text
    STRUCTURE = "structure"
    ARRAY = "array"
    MAP = "map"  # fields are pairs: a key and a value follow each other
    VARIANT = "variant"  # one of several forms: `label` says which, a field has its value
    MISSING = "missing"  # `reason` says why


class Field(NamedTuple):
    """A part of a value: a member with its name, a base class (`is_base`), an element (no name)."""

    name: str
    value: Value
    is_base: bool = False


class Value(NamedTuple):
    """The value of a variable or of a part of one.

    `text` is the value as gdb prints it, or as the language's own debugger scripts do. `content` is a number, a text,
    or None. `fields` are the parts that were read: `length` counts all of them, and `is_cut` says that some were left
    out. `reason` says why there is no value: "optimized out", "the memory at 0x8 is not in the core".
    """

    kind: ValueKind
    type: str = ""
    text: str = ""
    content: int | float | bool | str | None = None
    label: str = ""
    fields: tuple[Field, ...] = ()
    target: Value | None = None
    length: int | None = None
    is_cut: bool = False
    reason: str = ""

    def __str__(self) -> str:
        return self.text

    def as_object(self) -> object:
        """Return the value for JSON: numbers, texts, lists and objects; None if there is none."""
        if self.kind is ValueKind.MAP:
            parts = [field.value.as_object() for field in self.fields]
            return [list(pair) for pair in zip(parts[::2], parts[1::2], strict=False)]
        if self.kind is ValueKind.ARRAY:
            return [field.value.as_object() for field in self.fields]
        if self.kind is ValueKind.STRUCTURE:
            return {field.name: field.value.as_object() for field in self.fields}
        if self.kind is ValueKind.VARIANT:
            return {self.label: [field.value.as_object() for field in self.fields]}
        if self.kind is ValueKind.ENUMERATION:
            return self.label or self.content
        if self.kind is ValueKind.REFERENCE and self.target is not None:
            return self.target.as_object()
        if self.kind is ValueKind.POINTER:
            address = None if self.content is None else hex(int(self.content))
            if self.target is not None and self.target.kind is ValueKind.STRING:
                return {"address": address, "string": self.target.content}
            return address
        return self.content


class Variable(NamedTuple):
    """An argument or a local variable of a function, with its type and value.

    `line` is that of its declaration, 0 if unknown.
    """

    name: str
    type: str
    value: Value
    is_argument: bool = False
    line: int = 0

    def as_object(self) -> dict[str, object]:
        """Return the variable for JSON."""
        fields: dict[str, object] = {
            "name": self.name,
            "type": self.type,
            "argument": self.is_argument,
            "value": self.value.text,
        }
        if self.value.kind is ValueKind.MISSING:
            fields["reason"] = self.value.reason
        else:
            fields["content"] = self.value.as_object()
        if self.value.is_cut:
            fields["cut"] = True
        if self.value.length is not None:
            fields["length"] = self.value.length
        if self.line:
            fields["line"] = self.line
        return fields
