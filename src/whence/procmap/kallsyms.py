"""Read /proc/kallsyms, the kernel's own names.

    ffffffff81000000 T _text
    ffffffffc0401000 t init_module	[loop]

Without CAP_SYSLOG (kernel.kptr_restrict) all addresses are zero, and there are no names.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from whence.procmap.kernels.kallsyms import FunctionLines
from whence.procmap.names import NamedAddresses

# The upper half of a 64-bit address space, except the [vsyscall] page.
KERNEL_START = 1 << 63
LONGEST = 1 << 20  # maximal bytes of a function before a gap
_FIRST = re.compile(rb"(?<![^\n])([0-9a-fA-F]{8,16}) [tT] (_text|_stext)(?=\n|\Z)")
_BEFORE_NAME = 16 + len(b" T ")


class KernelNames(NamedAddresses):
    """Functions of a kernel and its modules; empty if addresses are hidden.

    A function extends to the next one. Of several names at one address the first counts. `begins` has the addresses of
    _text and _stext, if listed.

    >>> KernelNames(b"ffffffff81000000 T a\\nffffffff81000010 t b\\t[mod]\\n").lookup(0xffffffff8100000f)
    'a'
    """

    __slots__ = ("_data", "_name_offsets", "begins")

    def __init__(self, data: bytes = b"") -> None:
        super().__init__()
        self._data = data
        lines = FunctionLines(data)
        self._starts, self._name_offsets = lines.start.numbers(), lines.name_offset.numbers()
        self.begins: dict[str, int] = {}
        for offset in lines.first_symbols.numbers():
            match = _FIRST.search(data, max(0, offset - _BEFORE_NAME - 1), offset + len(b"_stext") + 1)
            if match and (address := int(match[1], 16)):
                self.begins[match[2].decode()] = address

    @property
    def text_address(self) -> int | None:
        return self.begins.get("_text")

    @classmethod
    def read(cls, path: str = "/proc/kallsyms") -> KernelNames:
        """Read a kallsyms file. Raises OSError."""
        with open(path, "rb") as file:
            return cls(file.read())

    def lookup(self, address: int) -> str:
        index = bisect_right(self._starts, address) - 1
        if index < 0 or address - self._starts[index] >= LONGEST:
            return ""
        begin = self._name_offsets[index]
        end = self._data.find(b"\n", begin)
        line = self._data[begin:] if end < 0 else self._data[begin:end]
        return b" ".join(line.split()).decode("utf-8", "surrogateescape")
