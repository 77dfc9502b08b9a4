"""Stack tokens, alone and in lines of a log."""

from __future__ import annotations

import re
from contextlib import suppress

from whence._base.errors import WhenceError
from whence.stack_token import ALPHABET, PATTERN, PREFIX, StackToken, TokenFrame, check_of, decode, encode

OTHERS = re.compile(r"[^A-Za-z0-9_-]")


def seeds() -> list[bytes]:
    short = StackToken(("0123456789",), (TokenFrame(0, 0x1139), TokenFrame(0, 0x1180)))
    modules = tuple(f"{number:010x}" for number in range(1, 4))
    frames = tuple(TokenFrame(number % 4 if number % 4 < 3 else None, number << number) for number in range(40))
    return [encode(short).encode(), encode(StackToken(modules, frames)).encode(), f"log {encode(short)} end".encode()]


def target(data: bytes) -> None:
    with suppress(WhenceError):
        decode(data.decode("utf-8", "replace"))
    payload = OTHERS.sub("", data.decode("latin-1").removeprefix(PREFIX))[:-2]
    check = check_of(payload)  # so that the rest of the payload is read, too
    text = f"log {PREFIX}{payload}{ALPHABET[check >> 6]}{ALPHABET[check & 63]} end"
    for result in PATTERN.findall(text.encode()):
        with suppress(WhenceError):
            token = decode(result.decode())
            assert decode(encode(token)).frames == token.frames
