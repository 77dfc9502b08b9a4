"""A Breakpad symbol file with every kind of record."""

from __future__ import annotations

BUILD_ID = "93ac61ec5a8eb1396f9fbd350e3169a558528a40"
DEBUG_ID = "EC61AC938E5A39B16F9FBD350E3169A50"
TEXT = f"""\
MODULE Linux x86_64 {DEBUG_ID} app one
INFO CODE_ID {BUILD_ID.upper()}
FILE 0 /src/main.c
FILE 1 inner.h
FILE 7 far.h
INLINE_ORIGIN 0 inner
INLINE_ORIGIN 3 outer<int, char>
FUNC 1000 40 0 main(int, char**)
INLINE 0 12 0 3 1010 10
INLINE 1 71 1 0 1010 4 1016 2
1000 8 10 0
1008 8 11 0
1010 8 111 1
1018 10 21 0
1030 8 9 7
FUNC m 1040 8 4 plain
1040 8 0 1
FUNC 1060 4 0 last
PUBLIC 1050 0 public one
PUBLIC m 1064 c end
STACK CFI INIT 1000 40 .cfa: $rsp 8 + .ra: .cfa -8 + ^
STACK CFI 1001 .cfa: $rsp 16 + $rbp: .cfa -16 + ^
STACK WIN 4 1000 40 0 0 0 0 0 0 1 $T0 $ebp =
"""


def example() -> bytes:
    return TEXT.encode()
