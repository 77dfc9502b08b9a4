"""Small classes of named fields, which take a seventh of the time that dataclasses needs to define one.

They are written like dataclasses, and type checkers read them as such:

>>> class Span(Record, frozen=True):
...     start: int
...     end: int
...     name: str = ""
>>> Span(0x1000, end=0x1040)
Span(start=4096, end=4160, name='')

`dataclasses` imports `inspect` and compiles methods for each class; records share theirs. docs/decisions/records.md has
the figures. Fields are slots; a class may have further `__slots__`, which are not copied. A frozen record is hashable
and immutable. A subclass has the fields of its base, too.
`NamedTuple` is typing's, without importing typing.
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar, dataclass_transform
    from typing import NamedTuple as NamedTuple

    T = TypeVar("T")
    R = TypeVar("R", bound="Record")
else:

    def dataclass_transform(**_options):
        return lambda made: made

    class NamedTupleMeta(type):
        """Makes classes of tuples; annotations are fields."""

        def __new__(mcs, name, bases, space):
            if not bases:
                return super().__new__(mcs, name, bases, space)
            fields = space.get("__annotations__", {})
            defaults = [space.pop(field) for field in fields if field in space]
            made = namedtuple(name, fields, defaults=defaults, module=space["__module__"])
            for other, value in space.items():
                setattr(made, other, value)
            return made

    class NamedTuple(metaclass=NamedTupleMeta):
        """typing.NamedTuple without typing."""


class Made:
    """A default that is created for each record."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def field(*, default_factory: Callable[[], T]) -> T:
    """Return a default that is created for each record."""
    return Made(default_factory)  # type: ignore[return-value]


@dataclass_transform(field_specifiers=(field,))
class RecordMeta(type):
    """Makes record classes; annotations are fields."""

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
        space |= {"__slots__": (*own, *space.get("__slots__", ())), "__match_args__": fields}
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
    """Return the values of a record, in the order of its fields."""
    return tuple(getattr(record, name) for name in type(record)._fields)


def as_dict(record: Record) -> dict[str, Any]:
    """Return the values of a record by field name, in order."""
    return dict(zip(type(record)._fields, values_of(record)))


def replaced(record: R, **changes: object) -> R:
    """Return a copy of a record with some fields changed.

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
