"""Finding whence's own modules for a command, in fewer steps than Python takes, whose finders serve every kind of file.

One cold address of an ELF file imports some ninety modules, a third of its time, and half of what a small module costs
is finding it: one finder after the other is asked, and each file is looked at four times before it is read.
`BytecodeFinder` goes straight to where set-up put the bytecode, `__pycache__/NAME.TAG.pyc` beside the source, and
believes it where Python does: when it is of this version of Python, and says the time and the size of the source. All
else (no bytecode there, or an old one; whence in a zip file) is left to Python.

Commands alone install it: a program that uses whence as a library imports as it always does.
"""

from __future__ import annotations

import os
import sys
from _frozen_importlib import ModuleSpec  # importlib.machinery has these, too, at the cost of its import
from _frozen_importlib_external import MAGIC_NUMBER, SourceFileLoader
from marshal import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType
    from typing import Any

PACKAGE = __name__.partition(".")[0]
HEAD = 16  # bytes of a .pyc: a magic number, flags, the time and the size of the source (PEP 552)
BY_TIME = MAGIC_NUMBER + bytes(4)  # how one begins whose source is known by its time and size


class ReadLoader(SourceFileLoader):
    """The loader of a module whose bytecode was read when it was found."""

    def __init__(self, name: str, path: str, bytecode: bytes) -> None:
        super().__init__(name, path)
        self._bytecode: bytes | None = bytecode

    def get_code(self, fullname: str) -> CodeType | None:
        if self._bytecode is None:  # it is asked for again, perhaps after a change
            return super().get_code(fullname)
        bytecode, self._bytecode = self._bytecode, None
        code: CodeType = loads(memoryview(bytecode)[HEAD:])
        return code


class BytecodeFinder:
    """A meta path finder of modules of this package."""

    def __init__(self, tag: str) -> None:
        """`tag` names the bytecode of this Python (sys.implementation.cache_tag)."""
        self._prefix = f"{PACKAGE}."
        self._suffix = f".{tag}.pyc"

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The spec of a module or a package; None leaves it to the next finder."""
        if path is None or not name.startswith(self._prefix):
            return None
        parent, _, own = name.rpartition(".")
        folder = path[0]
        if parent.endswith(".kernels"):  # the folder is their shared object, which has a finder (whence.kernels)
            kernels: Any = sys.path_importer_cache.get(folder)
            return None if kernels is None else kernels.find_spec(name)
        for inside, file in ((folder, own), (f"{folder}/{own}", "__init__")):
            source, cached = f"{inside}/{file}.py", f"{inside}/__pycache__/{file}{self._suffix}"
            bytecode = read_if_current(cached, source)
            if bytecode:
                spec = ModuleSpec(name, ReadLoader(name, source, bytecode), origin=source)
                spec.has_location, spec.cached = True, cached
                if inside is not folder:
                    spec.submodule_search_locations = [inside]
                return spec
        return None


def read_if_current(cached: str, source: str) -> bytes:
    """The content of a .pyc file; b"" when it is not there, or is not what this Python made of the source as it is."""
    try:
        descriptor = os.open(cached, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    except OSError:
        return b""
    try:
        bytecode = os.read(descriptor, os.fstat(descriptor).st_size)
        now = os.stat(source)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
    stamp = int(now.st_mtime) & 0xFFFFFFFF | (now.st_size & 0xFFFFFFFF) << 32
    return bytecode if bytecode[:HEAD] == BY_TIME + stamp.to_bytes(8, "little") else b""


def install() -> None:
    """Find modules so from now on, where bytecode lies beside the sources and is not one that -O asks for."""
    tag = sys.implementation.cache_tag
    if tag is not None and sys.pycache_prefix is None and not sys.flags.optimize:
        sys.meta_path.insert(0, BytecodeFinder(tag))
