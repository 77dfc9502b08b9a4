"""Comparing whole answers with the tools people trust: llvm-symbolizer, addr2line, symbolic.

witnesses.py     what each tool says about many addresses, as chains
ours.py          the same from whence
compare.py       agreement by majority, classes of differences; `python -m tests.oracle.compare FILE`
test_corpora.py  the big debug files (make oracle)
formats.py       programs of other formats than ELF
test_formats.py  the chains of these (make oracle)
"""
