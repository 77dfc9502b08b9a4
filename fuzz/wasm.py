"""WebAssembly modules: sections, imports, bodies and names of functions, exports, debug info."""

from __future__ import annotations

from contextlib import suppress

from tests.helpers.objects import read_all
from tests.helpers.wasm import whole_module
from whence._base.errors import WhenceError
from whence.objects.wasm import WasmFile


def seeds() -> list[bytes]:
    return [whole_module(), whole_module(code=False)]


def target(data: bytes) -> None:
    read_all(WasmFile.from_bytes, data)
    with suppress(WhenceError), WasmFile.from_bytes(data) as file:
        for index in range(8):
            file.vaddr_of_function(index)
