"""llvm-symbolizer, addr2line and eu-addr2line by their own names and with their own output.

addr2line              the program addr2line of binutils
dialects               how each tool and release spells names
eu_addr2line           the program eu-addr2line of elfutils
getopt_long            options as getopt_long reads them
llvm_symbolizer        the program llvm-symbolizer
markup                 the symbolizer markup format, `--filter-markup`
modules                the files that were asked about, opened once
nearest                the symbol nearest to an address
spelling               names in the dialect that was chosen
symbolizer_protocol    the lines of input and output that llvm-symbolizer and addr2line share
"""
