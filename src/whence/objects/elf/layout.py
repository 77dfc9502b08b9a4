"""ELF's structures as the gABI lays them out; kernels/constants.pxd has the numbers.

A layout is a struct format without byte-order mark; 32-bit and 64-bit files differ in widths and, for program headers
and symbols, in the order of the fields. The tables map the class byte's meaning (32, 64) to the layout.
"""

from __future__ import annotations

from whence.objects.elf.kernels import constants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from whence._base.window import ByteOrder

MAGIC = b"\x7fELF"
ELF32, ELF64 = 32, 64  # the bits of a file's class
BITS_OF_CLASS = {constants.ELFCLASS32: ELF32, constants.ELFCLASS64: ELF64}
ORDER_OF_DATA: dict[int, ByteOrder] = {constants.ELFDATA2LSB: "little", constants.ELFDATA2MSB: "big"}
ORDER_MARK = {"little": "<", "big": ">"}  # of struct

# after e_ident: type machine version entry phoff shoff flags ehsize phentsize phnum shentsize shnum shstrndx
HEADER = {ELF32: "HHIIIIIHHHHHH", ELF64: "HHIQQQIHHHHHH"}
# name type flags addr offset size link info addralign entsize
SECTION = {ELF32: "IIIIIIIIII", ELF64: "IIQQQQIIQQ"}
# 32: type offset vaddr paddr filesz memsz flags align; 64: type flags offset vaddr paddr filesz memsz align
SEGMENT = {ELF32: "IIIIIIII", ELF64: "IIQQQQQQ"}
# 32: type size addralign; 64: type reserved size addralign
COMPRESSION = {ELF32: "III", ELF64: "IIQQ"}
# 32: name value size info other shndx; 64: name info other shndx value size
SYMBOL_SIZE = {ELF32: constants.ELF32_SYM_SIZE, ELF64: constants.ELF64_SYM_SIZE}
# name size, description size, type; the name and the description follow
NOTE = "III"
# tag, value; the type and value of an entry of the auxiliary vector are both unsigned
DYNAMIC = {ELF32: "iI", ELF64: "qQ"}
AUXILIARY = {ELF32: "II", ELF64: "QQ"}
