"""/proc/kallsyms: the kernel's own names.

    ffffffff81000000 T _text
    ffffffffc0401000 t init_module	[loop]

Without CAP_SYSLOG (kernel.kptr_restrict) every address reads as zero: then nothing can be named.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from whence.procmap.kernels.kallsyms import FunctionLines
from whence.procmap.names import NamedAddresses

# On 64-bit machines the kernel has the upper half; the [vsyscall] page there belongs to processes.
KERNEL_START = 1 << 63
LONGEST = 1 << 20  # bytes that the last function before a gap is taken to have at most
_FIRST = re.compile(rb"(?<![^\n])([0-9a-fA-F]{8,16}) [tT] (_text|_stext)(?=\n|\Z)")
_BEFORE_NAME = 16 + len(b" T ")


class KernelNames(NamedAddresses):
    """Functions of a kernel and its modules; empty when addresses are hidden. `begins` says where _text and _stext lie,
    as far as that is said. A function reaches to the next one. Aliases of one address: the first counts, as the kernel
    prints it.

    >>> KernelNames(b"ffffffff81000000 T a\\nffffffff81000010 t b\\t[mod]\\n").lookup(0xffffffff8100000f)
    'a'
    """

    __slots__ = ("_data", "_name_at", "begins")

    def __init__(self, data: bytes = b"") -> None:
        super().__init__()
        self._data = data
        lines = FunctionLines(data)
        self._starts, self._name_at = lines.start.numbers(), lines.name_at.numbers()
        self.begins: dict[str, int] = {}
        for at in lines.first_symbols.numbers():
            found = _FIRST.search(data, max(0, at - _BEFORE_NAME - 1), at + len(b"_stext") + 1)
            if found and (address := int(found[1], 16)):
                self.begins[found[2].decode()] = address

    @property
    def text_address(self) -> int | None:
        return self.begins.get("_text")

    @classmethod
    def read(cls, path: str = "/proc/kallsyms") -> KernelNames:
        """Raises OSError when the file can't be read."""
        with open(path, "rb") as file:
            return cls(file.read())

    def lookup(self, address: int) -> str:
        index = bisect_right(self._starts, address) - 1
        if index < 0 or address - self._starts[index] >= LONGEST:
            return ""
        begin = self._name_at[index]
        end = self._data.find(b"\n", begin)
        line = self._data[begin:] if end < 0 else self._data[begin:end]
        return b" ".join(line.split()).decode("utf-8", "surrogateescape")
