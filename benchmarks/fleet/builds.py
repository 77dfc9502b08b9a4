"""Any number of builds of one program: each has a build-id and function names of its own."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import whence

PREFIX = b"build_00000000"


class Builds:
    """The builds of a generated C program of `functions` functions, compiled in `folder`."""

    def __init__(self, folder: Path, functions: int) -> None:
        self._folder, self._functions = folder, functions
        self._content = self._compile(0)
        program = folder / "program"
        with whence.open(program) as binary:
            self._build_id = bytes.fromhex(binary.build_id)
            self._starts = {
                function.function: function.vaddr
                for function in binary.functions()
                if function.function.startswith(f"{PREFIX.decode()}_")
            }
        self.address = self._starts[f"{PREFIX.decode()}_0"] + 1

    @property
    def starts(self) -> list[int]:
        """The vaddrs at which the functions start."""
        return sorted(self._starts.values())

    def _compile(self, night: int) -> bytes:
        """Return the program of a night; in each night one function of a hundred gets another line."""
        source, program = self._folder / "program.c", self._folder / "program"
        name = PREFIX.decode()
        changed = {number for past in range(night) for number in range(past, self._functions, 100)}
        source.write_text(
            f"static inline int {name}_inlined(int n) {{ return n * n + 1; }}\n"
            + "".join(
                f"int {name}_{i}(int n) {{\n    int m = {name}_inlined(n + {i});\n"
                + "    m ^= n;\n" * (i in changed)
                + f"    return m % {i + 2};\n}}\n"
                for i in range(self._functions)
            )
            + "int main(int argc, char **argv) {\n    return "
            + " + ".join(f"{name}_{i}(argc)" for i in range(self._functions))
            + ";\n}\n"
        )
        subprocess.run(["gcc", "-g", "-O1", "-Wl,--build-id", "-o", program, source], check=True)
        return program.read_bytes()

    def nights(self, count: int) -> list[bytes]:
        """Return nightly builds of the program."""
        return [self._compile(night) for night in range(count)]

    def build_id(self, number: int) -> str:
        """Return the build-id of a build, in hex."""
        return hashlib.sha1(b"%d" % number).hexdigest()

    def content(self, number: int) -> bytes:
        """Return the ELF file of a build."""
        content = self._content.replace(self._build_id, bytes.fromhex(self.build_id(number)))
        return content.replace(PREFIX, PREFIX[:-8] + b"%08d" % number)

    def name(self, number: int) -> str:
        """Return the name of the function at `address`."""
        return f"{(PREFIX[:-8] + b'%08d' % number).decode()}_0"
