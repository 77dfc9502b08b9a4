"""enum's classes without enum, whose import is 8 of the 130 million instructions that one address of an ELF file takes;
as far as they are used here: members with a name and a value, called or iterated over by their class.

>>> class Colour(StrEnum):
...     RED = "red"
...     GREEN = "green"
>>> Colour("red") is Colour.RED == "red", [colour.name for colour in Colour]
(True, ['RED', 'GREEN'])
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from enum import Enum as Enum
    from enum import IntEnum as IntEnum
    from enum import StrEnum as StrEnum
else:

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
