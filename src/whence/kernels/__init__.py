"""The compiled hot loops that all rooms share, and the finder of every room's.

A kernel is a file of a folder `kernels` and is imported as one. Those of a folder are compiled into one shared object
there, `compiled`, with a start function for each. The folder's `__path__` is that file, and `Kernels` is what Python's
import asks about it: 54 small shared objects would take a sixth more of a wheel, and more time to load.
"""

from __future__ import annotations

import os
import sys
from _frozen_importlib_external import (  # importlib.machinery has these, too, at the cost of its import
    EXTENSION_SUFFIXES,
    ExtensionFileLoader,
    spec_from_file_location,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

ROOM = "compiled"


class Kernels:
    """The path entry finder of a shared object with several modules."""

    def __init__(self, path: str) -> None:
        if not os.path.basename(path).startswith(f"{ROOM}."):
            raise ImportError(f"{path}: not a room's shared object")
        self.path = path

    def find_spec(self, name: str, target: ModuleType | None = None) -> ModuleSpec | None:
        return spec_from_file_location(name, self.path, loader=ExtensionFileLoader(name, self.path))


def shared_object(package: str) -> str:
    """The shared object beside a room's `__init__.py`, built for this Python."""
    folder = os.path.dirname(package)
    for suffix in EXTENSION_SUFFIXES:
        path = os.path.join(folder, ROOM + suffix)
        if os.path.exists(path):
            return path
    raise ImportError(f"{folder}: the kernels are not built for this Python: `pip install .` in a clone builds them")


sys.path_hooks.insert(0, Kernels)
__path__ = [shared_object(__file__)]
