"""Line programs of version 5 without instructions: tables of files with checksums and embedded texts."""

from __future__ import annotations

STRING, UDATA, DATA16, LINE_STRP = 0x08, 0x0F, 0x1E, 0x1F  # DW_FORM_*
PATH, DIRECTORY, CHECKSUM, SOURCE = 1, 2, 5, 0x2001  # DW_LNCT_*


def line_program(
    files: list[tuple[bytes, int, bytes, bytes]], *, directories: tuple[bytes, ...] = (b"/src", b"inc"),
    with_text: bool = False, wide: bool = False,
) -> bytes:  # fmt: skip
    """Return a program of version 5 without instructions: files are name, directory, MD5 and text."""
    header = bytes([1, 1, 1, 0xFB, 14, 13]) + bytes([0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1])
    header += bytes([1, PATH, STRING, len(directories)]) + b"".join(name + b"\0" for name in directories)
    formats = bytes([PATH, STRING, DIRECTORY, UDATA, CHECKSUM, DATA16])
    if with_text:
        formats += bytes([SOURCE & 0x7F | 0x80, SOURCE >> 7, STRING])
    header += bytes([4 if with_text else 3]) + formats + bytes([len(files)])
    for name, directory, md5, text in files:
        header += name + b"\0" + bytes([directory]) + md5 + (text + b"\0" if with_text else b"")
    offset = 8 if wide else 4
    body = (5).to_bytes(2, "little") + bytes([8, 0]) + len(header).to_bytes(offset, "little") + header
    length = len(body).to_bytes(8 if wide else 4, "little")
    return (b"\xff\xff\xff\xff" if wide else b"") + length + body
