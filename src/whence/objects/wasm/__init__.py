"""WebAssembly modules as tables, for DWARF in custom sections, the name section and exports.

In: bytes (a mapped file or a buffer). Out: sections, functions with their names and the build-id, through the interface
of `whence.objects`. The standards are the WebAssembly core specification and, for custom sections, the tool conventions
of WebAssembly.

module.py   sections, bodies and names of functions, as tables of ELF's form
file.py     WasmFile: open, from_bytes, and access to everything above
"""

from whence.objects.wasm.file import WasmFile

__all__ = ["WasmFile"]
