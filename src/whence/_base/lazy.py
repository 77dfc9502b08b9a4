"""Public names of a package that are imported when they are first used, so that `import whence` stays quick."""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def attach(package: str, names: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a package.

    `names` has the module of each public name, "module:name" if it has another name there, and "module:" for the module
    itself. `__getattr__` raises AttributeError for other names; `__dir__` lists the public names only.
    """

    def getattr_(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, has_other, attribute = names[name].partition(":")
        loaded = import_module(module)
        return loaded if has_other and not attribute else getattr(loaded, attribute or name)

    def dir_() -> list[str]:
        return sorted(vars(sys.modules[package]).get("__all__", names))

    return getattr_, dir_
