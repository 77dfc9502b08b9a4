"""`make demo`: the main job on real input, printed as it goes.

Takes the library or program this very Python runs from, archives it, takes addresses of this process (a few bytes into
functions the interpreter exports), walks them back through the process's mappings to the file, and names them from the
archive.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

from whence import lidia
from whence.cli.words import plain
from whence.demangle import demangle
from whence.lidia.build import create
from whence.procmap import AddressMapper, Resolver

EXPORTED = ("PyObject_Repr", "PyLong_FromString", "PyEval_EvalCode", "PyUnicode_Join", "PyDict_GetItem", "PyList_Sort")
STEPS = (0, 24, 61)  # bytes into each function


def main() -> int:
    api = ctypes.pythonapi
    addresses = [
        (name, step, entry + step)
        for name in EXPORTED
        for step in STEPS
        if (entry := ctypes.cast(getattr(api, name), ctypes.c_void_p).value) is not None
    ]
    resolver = Resolver()
    mapping = resolver.lookup(os.getpid(), addresses[0][2])
    if mapping is None:
        print("this process's own mappings can't be read", file=sys.stderr)
        return 1
    path = mapping.openable_path()
    out = Path("demo", Path(mapping.path).name + ".lidia")
    out.parent.mkdir(exist_ok=True)
    print(f"1. The binary this Python runs from: {plain(mapping.path)}, build-id {mapping.build_id or 'none'}")
    created = create(path, out)
    kinds = ", ".join(f"{count:,} from {word}" for word, count in created.sources.items())
    print(f"2. Archived in {created.seconds:.2f} s: {plain(out)} ({out.stat().st_size / 1e6:.1f} MB; ranges: {kinds})")
    print("3. Addresses of this process, named from the archive:\n")
    mapper = AddressMapper(path)
    with lidia.open(out) as table:
        print(f"   {'runtime address':18} {'file offset':>11} {'vaddr':>10}  name and place")
        for _, _, runtime in addresses:
            file_offset = runtime - mapping.start + mapping.offset
            vaddr = mapper.file_offset_to_virtual_address(file_offset)
            if vaddr is None:
                continue
            place = f"{runtime:#018x} {file_offset:#11x} {vaddr:#10x}"
            for frame in table.lookup(vaddr):
                inlined = " (inlined)" if frame.inlined else ""
                line = f"  {frame.file}:{frame.line}" if frame.file else ""
                print(f"   {place:41}  {demangle(frame.function)}{line}{inlined}")
                place = ""
    print(
        f"""
Where to go next:
   .venv/bin/whence lidia info {out}
   .venv/bin/whence addr {out} {vaddr:#x}
   .venv/bin/whence addr {mapping.path} {vaddr:#x}
   .venv/bin/whence pid {os.getppid()}
   .venv/bin/whence --help"""
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
