"""The compiled hot loops that all packages share, and the finder of all kernels.

A kernel is a file of a folder `kernels` and is imported as a module of it. All are compiled into one shared object,
`compiled`, with an init function for each. It is the `__path__` of every folder `kernels`, and `Kernels` finds the
modules in it. Many small shared objects would make a larger wheel and load more slowly (docs/decisions/kernels.md).
"""

from __future__ import annotations

import os
import sys
from _frozen_importlib_external import (  # importlib.machinery is slower to import
    EXTENSION_SUFFIXES,
    ExtensionFileLoader,
    spec_from_file_location,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

COMPILED = "compiled"


class Kernel(ExtensionFileLoader):
    """The loader of a kernel, whose init function has the full name: packages may have kernels of one name."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        start = type(spec)(f"{spec.parent}.{spec.name.replace('.', '_')}", self, origin=spec.origin)
        module = super().create_module(start)
        module.__name__ = spec.name
        return module


class Kernels:
    """The path entry finder of a shared object with several modules."""

    def __init__(self, path: str) -> None:
        if not os.path.basename(path).startswith(f"{COMPILED}."):
            raise ImportError(f"{path}: not the shared object of kernels")
        self.path = path

    def find_spec(self, name: str, target: ModuleType | None = None) -> ModuleSpec | None:
        return spec_from_file_location(name, self.path, loader=Kernel(name, self.path))


def shared_object(folder: str) -> str:
    """Return the path of the shared object in a folder that was built for this Python."""
    for suffix in EXTENSION_SUFFIXES:
        path = os.path.join(folder, COMPILED + suffix)
        if os.path.exists(path):
            return path
    raise ImportError(f"{folder}: the kernels are not built for this Python: `pip install .` in a clone builds them")


sys.path_hooks.insert(0, Kernels)
__path__ = [shared_object(os.path.dirname(__file__))]
