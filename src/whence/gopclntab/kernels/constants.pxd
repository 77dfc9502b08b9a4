# Numbers of Go's function table, by the names in Go's sources (internal/abi/symtab.go, runtime/runtime2.go). Kernels
# cimport them as C constants; Python imports them from the module of the same name. Magics are in header.py.

cpdef enum:  # indexes of a function's tables of inlined calls
    PCDATA_InlTreeIndex = 2  # since Go 1.13
    PCDATA_InlTreeIndex_go1_9 = 1
    FUNCDATA_InlTree = 3  # since Go 1.16
    FUNCDATA_InlTree_go1_9 = 2
    FUNCDATA_InlTree_go1_13 = 4

cpdef enum:  # offsets in a _func, after its entry
    FUNC_nameOff = 0
    FUNC_pcsp = 12
    FUNC_pcfile = 16
    FUNC_pcln = 20
    FUNC_npcdata = 24
    FUNC_cuOffset = 28  # since Go 1.16
    FUNC_startLine = 32  # since Go 1.20
    FUNC_last_go1_2 = 28  # the word whose last byte is nfuncdata
    FUNC_last_go1_16 = 32
    FUNC_last_go1_20 = 36

cpdef enum:  # offsets of the call's position in a node of an inline tree, before Go 1.20
    NODE_file = 4
    NODE_line = 8
    NODE_FIELD = 4  # bytes of each field but the parent's

cpdef enum:
    MAX_DEPTH = 256  # calls inlined into each other
    MAX_STANDSTILL = 64  # pairs of a pc-value table that do not move the pc
