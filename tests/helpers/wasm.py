"""WebAssembly modules with a bit of everything."""

from __future__ import annotations

import struct

from tests.forge.dwarf import Debug, Die, function
from tests.forge.lines import uleb
from tests.forge.wasm import custom, name, section


def whole_module(*, code: bool = True) -> bytes:
    """A module with imports, exports, names, debug info and IDs."""
    root = Die(0x11, [(0x03, 0x08, "a.c")], [function("f", 2, 0x20), function("dropped", 0, 0x10)])
    out = b"\0asm" + struct.pack("<I", 1)
    imports = [
        name("env") + name("f") + b"\x00\x00", name("env") + name("m") + b"\x02\x01\x01\x02",
        name("env") + name("g") + b"\x03\x7f\x00", name("env") + name("t") + b"\x01\x70\x00\x01",
    ]  # fmt: skip
    out += section(2, uleb(len(imports)) + b"".join(imports))
    out += section(7, uleb(2) + name("run") + b"\x00\x01" + name("memory") + b"\x02\x00")
    if code:
        out += section(10, uleb(3) + (uleb(0x20) + bytes(0x20)) * 3)
    for title, data in Debug(address_size=4).unit(root).contents().items():
        out += custom(f".debug_{title}", data)
    names = uleb(3) + b"".join(uleb(index) + name(text) for index, text in ((0, "f"), (1, "first"), (3, "last")))
    out += custom("name", b"\x00\x02\x01m\x01" + uleb(len(names)) + names)
    return out + custom("build_id", b"\x04abcd") + custom("external_debug_info", name("a.debug.wasm"))
