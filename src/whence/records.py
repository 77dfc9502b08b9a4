"""Small classes of named fields, made as dataclasses are and read as such by type checkers:

>>> class Span(Record, frozen=True):
...     start: int
...     end: int
...     name: str = ""
>>> Span(0x1000, end=0x1040)
Span(start=4096, end=4160, name='')

`dataclasses` imports inspect, ast and dis, and compiles methods for each class: together a third of the time that one
address of an ELF file took, which needs some twenty such classes. These share their methods. Fields are slots; a frozen
record can be hashed and refuses to be changed. The fields of a class that inherits from a record are those of both.
`NamedTuple` is typing's, without typing. `Enum`, `IntEnum` and `StrEnum` are enum's, without enum, as far as they are
used here: members with a name and a value, called or iterated over by their class:

>>> class Colour(StrEnum):
...     RED = "red"
...     GREEN = "green"
>>> Colour("red") is Colour.RED == "red", [colour.name for colour in Colour]
(True, ['RED', 'GREEN'])
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from enum import Enum as Enum
    from enum import IntEnum as IntEnum
    from enum import StrEnum as StrEnum
    from typing import Any, TypeVar, dataclass_transform
    from typing import NamedTuple as NamedTuple

    T = TypeVar("T")
    R = TypeVar("R", bound="Record")
else:

    def dataclass_transform(**_options):
        return lambda made: made

    class NamedTupleMeta(type):
        """Makes classes of tuples: what is annotated is a field."""

        def __new__(mcs, name, bases, space):
            if not bases:
                return super().__new__(mcs, name, bases, space)
            from collections import namedtuple

            fields = space.get("__annotations__", {})
            defaults = [space.pop(field) for field in fields if field in space]
            made = namedtuple(name, fields, defaults=defaults, module=space["__module__"])
            for other, value in space.items():
                setattr(made, other, value)
            return made

    class NamedTuple(metaclass=NamedTupleMeta):
        """typing's, for those who would import typing for nothing else."""

    class EnumMeta(type):
        """Makes classes of members: each value in the class's body that is public and no method or property. The
        values of a tuple are what __new__ gets; it may set `_value_`."""

        def __new__(mcs, name, bases, space):
            values = {key: value for key, value in space.items() if key[0] != "_" and not hasattr(value, "__get__")}
            made = super().__new__(mcs, name, bases, {key: space[key] for key in space if key not in values})
            members = {}
            for key, value in values.items():
                member = made.__new__(made, *(value if type(value) is tuple else (value,)))
                member.__dict__.setdefault("_value_", value)
                member._name_ = key
                setattr(made, key, member)
                members[key] = member
            made._members = members
            made._by_value = {member._value_: member for member in members.values()}
            return made

        def __call__(cls, value):
            try:
                return value if type(value) is cls else cls._by_value[value]
            except (KeyError, TypeError):
                raise ValueError(f"{value!r} is not a valid {cls.__qualname__}") from None

        def __setattr__(cls, name, value):
            if name in cls.__dict__.get("_members", ()):
                raise AttributeError(f"{name} of {cls.__qualname__} cannot be changed")
            super().__setattr__(name, value)

        def __getitem__(cls, name):
            return cls._members[name]

        def __contains__(cls, value):
            return type(value) is cls or value in cls._by_value

        def __iter__(cls):
            return iter(cls._members.values())

        def __len__(cls):
            return len(cls._members)

        def __bool__(cls):
            return True

    class Enum(metaclass=EnumMeta):
        """enum's, for those who would import enum for nothing else."""

        def __new__(cls, *_values):
            return object.__new__(cls)

        @property
        def name(self):
            return self._name_

        @property
        def value(self):
            return self._value_

        def __repr__(self):
            return f"<{type(self).__name__}.{self._name_}: {self._value_!r}>"

        def __str__(self):
            return f"{type(self).__name__}.{self._name_}"

        def __reduce_ex__(self, _protocol):
            return type(self), (self._value_,)

    class IntEnum(int, Enum):
        """Members that are numbers."""

        __repr__ = Enum.__repr__
        __str__ = int.__repr__

    class StrEnum(str, Enum):
        """Members that are texts."""

        __repr__ = Enum.__repr__
        __str__ = str.__str__


class Made:
    """A default that is made anew for each record."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def field(*, default_factory: Callable[[], T]) -> T:
    """A field that nobody needs to give."""
    return Made(default_factory)  # type: ignore[return-value]


@dataclass_transform(field_specifiers=(field,))
class RecordMeta(type):
    """Makes record classes: what is annotated is a field."""

    _fields: tuple[str, ...]
    _defaults: dict[str, Any]
    _setters: tuple[Callable[[object, object], None], ...]  # of the slots: a frozen record's values are put in so

    def __new__(mcs, name: str, bases: tuple[type, ...], space: dict[str, Any], frozen: bool = False) -> RecordMeta:
        own = tuple(space.get("__annotations__", ()))
        defaults = {name: space.pop(name) for name in own if name in space}
        fields = own
        for base in bases:
            if isinstance(base, RecordMeta):
                fields, defaults = base._fields + fields, base._defaults | defaults
        space |= {"__slots__": own, "__match_args__": fields}
        if frozen:
            space |= {"__setattr__": _refuse, "__delattr__": _refuse, "__hash__": _hash}
        made = super().__new__(mcs, name, bases, space)
        made._fields, made._defaults = fields, defaults
        made._setters = tuple(getattr(made, name).__set__ for name in fields)
        return made

    def __init__(cls, name: str, bases: tuple[type, ...], space: dict[str, Any], frozen: bool = False) -> None:
        super().__init__(name, bases, space)


class Record(metaclass=RecordMeta):
    def __init__(self, *values: object, **named: object) -> None:
        kind = type(self)
        for put, value in zip(kind._setters, values):
            put(self, value)
        fields, given = kind._fields, len(values)
        if given == len(fields) and not named:
            return
        if given > len(fields):
            raise TypeError(f"{kind.__name__} has {len(fields)} fields, not {given}")
        for name, put in zip(fields[given:], kind._setters[given:]):
            if name in named:
                put(self, named.pop(name))
            elif name in kind._defaults:
                default = kind._defaults[name]
                put(self, default.make() if type(default) is Made else default)
            else:
                raise TypeError(f"{kind.__name__} needs {name}")
        if named:
            raise TypeError(f"{kind.__name__} has no field {next(iter(named))}, or was given it twice")

    def __eq__(self, other: object) -> bool:
        return values_of(self) == values_of(other) if type(other) is type(self) else NotImplemented

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in type(self)._fields)
        return f"{type(self).__name__}({fields})"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), values_of(self)


def values_of(record: Record) -> tuple[object, ...]:
    """The values of a record's fields, in order."""
    return tuple(getattr(record, name) for name in type(record)._fields)


def as_dict(record: Record) -> dict[str, Any]:
    """The values of a record's fields by name, in order."""
    return dict(zip(type(record)._fields, values_of(record)))


def replaced(record: R, **changes: object) -> R:
    """A record like another one but for some fields.

    >>> class Point(Record, frozen=True):
    ...     x: int
    ...     y: int
    >>> replaced(Point(1, 2), y=3)
    Point(x=1, y=3)
    """
    return type(record)(**(as_dict(record) | changes))


def _hash(self: Record) -> int:
    return hash(values_of(self))


def _refuse(self: Record, name: str, *_value: object) -> None:
    raise AttributeError(f"{name} of a {type(self).__name__} cannot be changed")
