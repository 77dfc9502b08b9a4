"""Examples of the forms, filled in for a real program."""

from pathlib import Path

from tests.helpers.functions import place_of
from whence.filter import Form
from whence.objects.elf import ElfFile
from whence.objects.elf.segments import Translation


def example_of(form: Form, program: Path) -> bytes:
    start, size = place_of(program, "sum")
    with ElfFile.open(program) as elf:
        translation = Translation(elf.segments)
    first = min(segment.vaddr for segment in translation.segments)
    words = {
        b"AFTER_START": b"%x" % (start + size - first), b"IN_FILE": b"%x" % (translation.file_offset_of(start) or 0),
        b"MODULE": bytes(program), b"OFFSET": b"%x" % (size - 1), b"SIZE": b"%x" % size, b"VADDR": b"%08x" % start,
        b"RUNTIME": b"%x" % start, b"RETURN": b"%08x" % (start + size),
    }  # fmt: skip
    text = form.example
    for word, value in words.items():
        text = text.replace(word, value)
    return text
