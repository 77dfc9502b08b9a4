"""Logs of arbitrary bytes: the output does not depend on how the log is cut into blocks."""

from __future__ import annotations

from whence.binary import Binary
from whence.filter import FORMS, LogFilter, Places
from whence.filter.forms import ANY_ADDRESS
from whence.lidia import Builder, Range
from whence.lidia import from_bytes as table_of
from whence.locate.search import FileQuery
from whence.locator.answers import AnswerSearch
from whence.locator.locator import Locator


class Given(Locator):
    """A Locator of one file, which needs no file: a function for 0x1000 to 0x2000."""

    def __init__(self) -> None:
        super().__init__(dirs=())
        self.files = ("app",)

    def open(self, path: object = "", **_: object) -> Binary:
        return named(str(path))

    def search(self, query: FileQuery, **_: object) -> AnswerSearch:
        return AnswerSearch(str(query))

    def library_in_zip(self, path: str, file_offset: int) -> tuple[str, int, str]:
        return path, file_offset, ""


def named(name: str) -> Binary:
    """A binary that opens no file: a function for 0x1000 to 0x2000."""
    builder = Builder()
    builder.add(Range(vaddr=0x1000, length=0x1000, function="main", file="/src/main.c", line_table=((0, 3),)))
    return Binary(table=table_of(builder.to_bytes()), path=name)


def seeds() -> list[bytes]:
    words = {b"MODULE": b"app", b"VADDR": b"1010", b"RUNTIME": b"1010", b"RETURN": b"1010", b"OFFSET": b"4"}
    result = []
    for form in (*FORMS, ANY_ADDRESS):
        text = form.example.replace(b"SIZE", b"1000").replace(b"sum", b"main")
        for word, value in words.items():
            text = text.replace(word, value)
        result.append(text + b"\n")
    return result


def target(data: bytes) -> None:
    with Places(Given()) as places:

        def filtered(text: bytes, size: int) -> bytes:
            log = LogFilter(places)
            parts = [log.feed(text[offset : offset + size]) for offset in range(0, len(text), size)]
            return b"".join(parts) + log.finish()

        once = filtered(data, 1 << 20)
        places.forget()
        assert filtered(data, 7) == once
