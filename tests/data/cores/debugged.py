"""debugged.py PROGRAM OUT: a core of riscv64, by what gdb-multiarch says of the program in qemu-user when it faults.

qemu 7.2 writes no cores of riscv64. Registers lie as Linux's struct user_regs_struct has them: the pc, then x1 to x31.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

PORT, STACK = 12345, 2048
NT_PRSTATUS, NT_AUXV = 1, 6
AT_PHDR, AT_PHNUM, AT_ENTRY = 3, 5, 9
EM_RISCV = 243


def note(kind: int, content: bytes) -> bytes:
    return struct.pack("<III", 5, len(content), kind) + b"CORE\0\0\0\0" + content + bytes(-len(content) % 4)


def main(program: str, out: str) -> None:
    qemu = subprocess.Popen([shutil.which("qemu-riscv64-static") or "", "-g", str(PORT), program], env={})
    with tempfile.TemporaryDirectory() as folder:
        dump = f"dump binary memory {folder}/stack $sp $sp+{STACK}"
        every = [f'printf "x{n} %lx\\n", $x{n}' for n in range(1, 32)]
        words = ["target remote :%d" % PORT, "continue", 'printf "x0 %lx\\n", $pc', *every, dump, "kill"]
        command = ["gdb-multiarch", "-batch", "-nx", *(word for each in words for word in ("-ex", each)), program]
        text = subprocess.run(command, capture_output=True, text=True).stdout
        stack = Path(folder, "stack").read_bytes()
    qemu.wait()
    registers = {int(n): int(value, 16) for n, value in re.findall(r"^x(\d+) ([0-9a-f]+)$", text, re.M)}
    status = struct.pack("<IIIHHQQIIII64s", 11, 0, 0, 11, 0, 0, 0, 1, 0, 1, 1, b"")
    status += struct.pack("<32Q", *(registers[n] for n in range(32))) + bytes(8)
    elf = Path(program).read_bytes()
    (entry, headers), (count,) = struct.unpack_from("<QQ", elf, 24), struct.unpack_from("<H", elf, 56)
    rows = [struct.unpack_from("<IIQQQQQQ", elf, headers + 56 * n) for n in range(count)]
    loads = [(row[1], row[3], row[6]) for row in rows if row[0] == 1]
    words_of = (AT_PHDR, loads[0][1] + headers, AT_PHNUM, count, AT_ENTRY, entry, 0, 0)
    notes = note(NT_PRSTATUS, status) + note(NT_AUXV, struct.pack("<8Q", *words_of))
    location = 64 + 56 * (len(loads) + 2)
    table = struct.pack("<IIQQQQQQ", 4, 0, location, 0, 0, len(notes), 0, 4)
    table += b"".join(struct.pack("<IIQQQQQQ", 1, flags, location, offset, 0, 0, size, 4) for flags, offset, size in loads)
    table += struct.pack("<IIQQQQQQ", 1, 6, location + len(notes), registers[2], 0, STACK, STACK, 4)
    ident = elf[:16] + struct.pack("<HHIQQQIHHHHHH", 4, EM_RISCV, 1, 0, 64, 0, 0, 64, 56, len(loads) + 2, 0, 0, 0)
    Path(out).write_bytes(ident + table + notes + stack)


if __name__ == "__main__":
    main(*sys.argv[1:])
