# The numbers of ELF, as the System V gABI, the processors' supplements (psABI), GNU and Linux name them. The only place
# that has them. Kernels cimport them as constants of C; Python imports them from the module of the same name, which a
# `cpdef enum` without a name fills with plain integers. What this package never asks for is left out.

cpdef enum:  # e_ident: where its fields lie, and what they say
    EI_CLASS = 4
    EI_DATA = 5
    EI_NIDENT = 16
    ELFCLASS32 = 1
    ELFCLASS64 = 2
    ELFDATA2LSB = 1
    ELFDATA2MSB = 2

cpdef enum:  # types of files
    ET_REL = 1
    ET_EXEC = 2
    ET_DYN = 3
    ET_CORE = 4

cpdef enum:  # machines
    EM_386 = 3
    EM_MIPS = 8
    EM_PPC = 20
    EM_PPC64 = 21
    EM_S390 = 22
    EM_ARM = 40
    EM_SPARCV9 = 43
    EM_IA_64 = 50
    EM_X86_64 = 62
    EM_AARCH64 = 183
    EM_RISCV = 243
    EM_BPF = 247
    EM_LOONGARCH = 258

cpdef enum:  # flags of a file that machines define
    EF_PPC64_ABI = 3  # bits that hold the ABI's version

cpdef enum:  # types of sections
    SHT_NULL = 0
    SHT_PROGBITS = 1
    SHT_SYMTAB = 2
    SHT_STRTAB = 3
    SHT_RELA = 4
    SHT_DYNAMIC = 6
    SHT_NOTE = 7
    SHT_NOBITS = 8
    SHT_REL = 9
    SHT_DYNSYM = 11
    SHT_SYMTAB_SHNDX = 18

cpdef enum:  # flags of sections
    SHF_WRITE = 0x1
    SHF_ALLOC = 0x2
    SHF_EXECINSTR = 0x4
    SHF_INFO_LINK = 0x40
    SHF_GROUP = 0x200
    SHF_COMPRESSED = 0x800

cpdef enum:  # section indexes that name no section
    SHN_UNDEF = 0
    SHN_LORESERVE = 0xFF00
    SHN_ABS = 0xFFF1
    SHN_COMMON = 0xFFF2
    SHN_XINDEX = 0xFFFF

cpdef enum:  # compression of sections
    ELFCOMPRESS_ZLIB = 1
    ELFCOMPRESS_ZSTD = 2

cpdef enum:  # types of segments
    PT_LOAD = 1
    PT_DYNAMIC = 2
    PT_INTERP = 3
    PT_NOTE = 4
    PT_PHDR = 6
    PT_GNU_EH_FRAME = 0x6474E550
    PT_GNU_SFRAME = 0x6474E554
    PT_ARM_EXIDX = 0x70000001
    PN_XNUM = 0xFFFF  # in e_phnum: the number of segments is in section 0

cpdef enum:  # flags of segments
    PF_X = 1
    PF_W = 2
    PF_R = 4

cpdef enum:  # tags of the dynamic table
    DT_NULL = 0
    DT_HASH = 4
    DT_STRTAB = 5
    DT_SYMTAB = 6
    DT_RELA = 7
    DT_RELASZ = 8
    DT_STRSZ = 10
    DT_SONAME = 14
    DT_GNU_HASH = 0x6FFFFEF5

cpdef enum:  # symbols: their size in a file, their binding (the upper four bits of st_info) and type (the lower four)
    ELF32_SYM_SIZE = 16
    ELF64_SYM_SIZE = 24
    STB_LOCAL = 0
    STB_GLOBAL = 1
    STB_WEAK = 2
    STB_GNU_UNIQUE = 10
    STB_SHIFT = 4
    STT_NOTYPE = 0
    STT_OBJECT = 1
    STT_FUNC = 2
    STT_SECTION = 3
    STT_FILE = 4
    STT_COMMON = 5
    STT_TLS = 6
    STT_GNU_IFUNC = 10
    STT_MASK = 0xF  # the bits of the type
    STV_HIDDEN = 2
    STV_MASK = 3  # the bits of the visibility in st_other

cpdef enum:  # types of notes; the owner comes first
    NT_GNU_BUILD_ID = 3  # GNU
    NT_GO_BUILD_ID = 4  # Go
    NT_PRSTATUS = 1  # CORE, as the following
    NT_PRPSINFO = 3
    NT_AUXV = 6
    NT_FILE = 0x46494C45

cpdef enum:  # entries of the auxiliary vector
    AT_SYSINFO_EHDR = 33

cpdef enum:  # r_info of a relocation: the symbol above, the type below
    ELF32_R_SYM_SHIFT = 8
    ELF32_R_TYPE_MASK = 0xFF
    ELF64_R_SYM_SHIFT = 32

cpdef enum:  # types of relocations, by machine
    R_X86_64_NONE = 0  # 0 does nothing on every machine
    R_X86_64_64 = 1
    R_X86_64_PC32 = 2
    R_X86_64_GLOB_DAT = 6
    R_X86_64_JUMP_SLOT = 7
    R_X86_64_32 = 10
    R_X86_64_32S = 11
    R_X86_64_DTPOFF64 = 17
    R_X86_64_DTPOFF32 = 21
    R_X86_64_PC64 = 24
    R_386_32 = 1
    R_386_PC32 = 2
    R_386_GLOB_DAT = 6
    R_386_JMP_SLOT = 7
    R_386_TLS_LDO_32 = 32
    R_AARCH64_ABS64 = 257
    R_AARCH64_ABS32 = 258
    R_AARCH64_ABS16 = 259
    R_AARCH64_PREL64 = 260
    R_AARCH64_PREL32 = 261
    R_AARCH64_GLOB_DAT = 1025
    R_AARCH64_JUMP_SLOT = 1026
    R_ARM_ABS32 = 2
    R_ARM_REL32 = 3
    R_ARM_GLOB_DAT = 21
    R_ARM_JUMP_SLOT = 22
    R_ARM_TLS_LDO32 = 106
    R_390_32 = 4
    R_390_PC32 = 5
    R_390_GLOB_DAT = 10
    R_390_JMP_SLOT = 11
    R_390_64 = 22
    R_390_PC64 = 23
    R_390_TLS_LDO32 = 52
    R_390_TLS_LDO64 = 53
    R_PPC_ADDR32 = 1
    R_PPC_REL32 = 26
    R_PPC_DTPREL32 = 78
    R_PPC64_ADDR32 = 1
    R_PPC64_REL32 = 26
    R_PPC64_ADDR64 = 38
    R_PPC64_REL64 = 44
    R_PPC64_DTPREL64 = 78
    R_MIPS_32 = 2
    R_MIPS_64 = 18
    R_MIPS_TLS_DTPREL32 = 39
    R_MIPS_TLS_DTPREL64 = 41
    R_RISCV_32 = 1
    R_RISCV_64 = 2
    R_RISCV_JUMP_SLOT = 5
    R_RISCV_TLS_DTPREL32 = 8
    R_RISCV_TLS_DTPREL64 = 9
    R_RISCV_ADD8 = 33
    R_RISCV_ADD16 = 34
    R_RISCV_ADD32 = 35
    R_RISCV_ADD64 = 36
    R_RISCV_SUB8 = 37
    R_RISCV_SUB16 = 38
    R_RISCV_SUB32 = 39
    R_RISCV_SUB64 = 40
    R_RISCV_SET8 = 54
    R_RISCV_SET16 = 55
    R_RISCV_SET32 = 56
    R_RISCV_32_PCREL = 57
    R_RISCV_SET_ULEB128 = 60
    R_RISCV_SUB_ULEB128 = 61
    R_LARCH_32 = 1
    R_LARCH_64 = 2
    R_LARCH_ADD8 = 47
    R_LARCH_ADD16 = 48
    R_LARCH_ADD32 = 50
    R_LARCH_ADD64 = 51
    R_LARCH_SUB8 = 52
    R_LARCH_SUB16 = 53
    R_LARCH_SUB32 = 55
    R_LARCH_SUB64 = 56
    R_LARCH_32_PCREL = 99

# What follows is this package's own.

cpdef enum:  # what to do at a place: an operation, plus the width in bytes
    STORE = 0x10  # S+A
    ADD = 0x20  # content+S+A
    SUB = 0x30  # content-S-A
    RELATIVE = 0x40  # S+A-P
    STORE_ULEB = 0x50  # STORE and SUB in the bytes of a ULEB128 number
    SUB_ULEB = 0x60
    OPERATION = 0xF0  # the bits of the operation
    WIDTH = 0x0F  # the bits of the width

cpdef enum:  # why a relocation is left out
    UNKNOWN_KIND = 1
    OUTSIDE = 2
    NO_SYMBOL = 3

cpdef enum:
    KINDS_ROOM = 512  # relocation types are below it

cpdef enum:  # what a section's addresses are to symbols
    NOT_LOADED = 0
    DATA = 1
    CODE = 2
