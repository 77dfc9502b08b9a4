"""Replacements of llvm-symbolizer, addr2line and eu-addr2line, with their names, options and output.

addr2line              the program addr2line of binutils
dialects               readable names in the form of each tool and release
eu_addr2line           the program eu-addr2line of elfutils
getopt_long            a parser of options like getopt_long
llvm_symbolizer        the program llvm-symbolizer
markup                 the symbolizer markup format, `--filter-markup`
modules                the files of questions, each opened once
nearest                the symbol nearest to an address
spelling               readable names in the chosen form
symbolizer_protocol    the questions and answers shared by llvm-symbolizer and addr2line
"""
