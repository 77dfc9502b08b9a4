r"""Values as text, in gdb's form: `65 'A'`, `"ab\n", '\000' <repeats 12 times>`, `{1, 2, 3}`, `(A | B)`."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator, Sequence

from whence.dwarf.kernels import constants
from whence.types.model import Language, Type, TypeKind

REPEATS = 10  # equal elements in a row that are written in full
SIGNIFICANT = {4: 9, 8: 17}  # digits of a float
X87_DIGITS = 21
ESCAPES = {7: r"\a", 8: r"\b", 9: r"\t", 10: r"\n", 11: r"\v", 12: r"\f", 13: r"\r"}
BACKSLASH, DELETE, FIRST_PRINTABLE = 92, 127, 32
WIDE = {"wchar_t": "L", "char16_t": "u", "char32_t": "U"}  # prefixes of characters of more than a byte
WIDTHS = (1, 2, 4)  # bytes of a character
CODES = 0x110000  # of Unicode
QUOTE, DOUBLE_QUOTE = ord("'"), ord('"')
RAW = range(0xDC80, 0xDD00)  # where Python's surrogateescape puts bytes that are not UTF-8
RAW_BASE = 0xDC00
FLOAT_EXPONENT = 300  # of numbers that are certainly a float of 64 bits
X87_SPECIAL = 0x7FFF  # exponent of infinity and NaN
EXPONENT_LEAST = -4  # of numbers that %g writes without an exponent


def missing_text(reason: str) -> str:
    """Return the text in place of a value.

    >>> missing_text("optimized out"), missing_text("the memory at 0x8 is not in the core")
    ('<optimized out>', '<error: the memory at 0x8 is not in the core>')
    """
    return f"<{reason}>" if reason in ("optimized out", "synthetic pointer") else f"<error: {reason}>"


def character_text(code: int, size: int = 1, prefix: str = "") -> str:
    r"""Return a character in quotes.

    >>> print(character_text(65), character_text(0), character_text(39), character_text(0x20AC, 4, "L"))
    'A' '\000' '\'' L'€'
    """
    return f"{prefix}'{escaped(code, size, QUOTE)}'"


def escaped(code: int, size: int, quote: int) -> str:
    """Return a character as it is written between quotes."""
    if code in ESCAPES:
        return ESCAPES[code]
    if code in (quote, BACKSLASH):
        return f"\\{chr(code)}"
    if FIRST_PRINTABLE <= code < DELETE:
        return chr(code)
    if size > 1 and code > DELETE and code < CODES and chr(code).isprintable():
        return chr(code)
    if code < 1 << 8 * size and size > 1:
        return "".join(f"\\{byte:03o}" for byte in code.to_bytes(size, "little") if byte) or r"\000"
    return f"\\{code & 0xFF:03o}"


def characters_of(data: bytes, size: int, order: str) -> list[tuple[int, int]]:
    r"""Return the characters of a text: code, and how many bytes a code unit has; UTF-8 is decoded where it is valid.

    A byte that is not part of valid UTF-8 is itself.

    >>> characters_of("a\u20ac".encode() + b"\xff", 1, "little")
    [(97, 1), (8364, 4), (255, 1)]
    """
    if size > 1:
        units = len(data) // size
        mark = "<" if order == "little" else ">"
        return [
            (code, size) for code in struct.unpack(f"{mark}{units}{'H' if size == 2 else 'I'}", data[: units * size])
        ]
    if data.isascii():
        return [(byte, 1) for byte in data]
    characters: list[tuple[int, int]] = []
    for part in data.decode("utf-8", "surrogateescape"):
        code = ord(part)
        if code in RAW:
            characters.append((code - RAW_BASE, 1))
        elif code <= DELETE or part.isprintable():
            characters.append((code, 4 if code > DELETE else 1))
        else:  # written as the bytes that it has
            characters += [(byte, 1) for byte in part.encode()]
    return characters


def string_text(characters: Sequence[tuple[int, int]], limit: int, *, is_cut: bool = False, prefix: str = "") -> str:
    r"""Return a text in quotes. More than REPEATS equal characters in a row are written as one, with their number.

    >>> print(string_text([(97, 1)] * 3 + [(0, 1)] * 12, 200))
    "aaa", '\000' <repeats 12 times>
    """
    if not characters:
        return f'{prefix}""' + ("..." if is_cut else "")
    parts: list[str] = []
    plain: list[str] = []
    written = 0
    index = 0
    while index < len(characters) and written < limit:
        end = index + 1
        while end < len(characters) and characters[end] == characters[index]:
            end += 1
        count = end - index
        code, size = characters[index]
        if count > REPEATS:
            if plain:
                parts.append(f'{prefix}"{"".join(plain)}"')
                plain = []
            parts.append(f"{prefix}'{escaped(code, size, QUOTE)}' <repeats {count} times>")
        else:
            plain += [escaped(code, size, DOUBLE_QUOTE)] * count
        written += count
        index = end
    if plain:
        parts.append(f'{prefix}"{"".join(plain)}"')
    return ", ".join(parts) + ("..." if is_cut or index < len(characters) else "")


def joined(texts: Iterable[str], *, is_cut: bool = False) -> str:
    """Return elements with commas. More than REPEATS equal elements in a row are written as one, with their number.

    >>> joined(["7"] * 12 + ["1", "2"], is_cut=True)
    '7 <repeats 12 times>, 1, 2...'
    """
    parts: list[str] = []
    for text, count in runs(texts):
        parts += [f"{text} <repeats {count} times>"] if count > REPEATS else [text] * count
    return ", ".join(parts) + ("..." if is_cut else "")


def runs(texts: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yield each text once for a row of equal ones, with their number."""
    last, count = "", 0
    for text in texts:
        if count and text != last:
            yield last, count
            count = 0
        last = text
        count += 1
    if count:
        yield last, count


def float_text(data: bytes, order: str) -> tuple[str, float | None]:
    """Return a floating-point number as text and as a float.

    >>> float_text(struct.pack("<f", 1.1), "little")[0], float_text(struct.pack("<d", 0.5), "little")[0]
    ('1.10000002', '0.5')
    """
    size = len(data)
    if size == 2:
        (value,) = struct.unpack(f"{'<' if order == 'little' else '>'}e", data)
        return f"{value:.5g}", value
    if size in SIGNIFICANT:
        mark = "<" if order == "little" else ">"
        (value,) = struct.unpack(f"{mark}{'f' if size == 4 else 'd'}", data)
        if math.isnan(value):
            bits = 8 * size
            number = int.from_bytes(data, "little" if order == "little" else "big")
            mantissa = number & (1 << (23 if size == 4 else 52)) - 1
            return f"{'-' if number >> bits - 1 else ''}nan(0x{mantissa:x})", None
        if math.isinf(value):
            return ("-inf" if value < 0 else "inf"), None
        return f"{value:.{SIGNIFICANT[size]}g}", value
    if size in (10, 12, 16) and order == "little":
        return x87_text(data)
    return "", None


def x87_text(data: bytes) -> tuple[str, float | None]:
    """Return an x87 number of 80 bits as text and as a float."""
    mantissa = int.from_bytes(data[:8], "little")
    head = int.from_bytes(data[8:10], "little")
    sign, exponent = "-" if head >> 15 else "", head & 0x7FFF
    if exponent == X87_SPECIAL:
        fraction = mantissa & (1 << 63) - 1
        return (f"{sign}nan(0x{mantissa:016x})" if fraction else f"{sign}inf"), None
    if not mantissa:
        return f"{sign}0", -0.0 if sign else 0.0
    from decimal import Context, Decimal

    power = max(exponent, 1) - 16383 - 63
    context = Context(prec=X87_DIGITS, Emax=99999, Emin=-99999)
    exact = Context(prec=20000, Emax=99999, Emin=-99999)
    number = exact.multiply(Decimal(mantissa), exact.power(Decimal(2), power))
    rounded = context.plus(number)
    value = float(rounded) if abs(rounded.adjusted()) < FLOAT_EXPONENT else None
    return sign + general(rounded, X87_DIGITS), None if value is None else -value if sign else value


def general(number: object, digits: int) -> str:
    """Return a decimal as C's %g writes it."""
    sign, figures, _ = number.as_tuple()  # type: ignore[attr-defined]
    exponent = number.adjusted()  # type: ignore[attr-defined]
    text = "".join(map(str, figures)).ljust(digits, "0")[:digits]
    mark = "-" if sign else ""
    if EXPONENT_LEAST <= exponent < digits:
        if exponent >= 0:
            before, rest = text[: exponent + 1], text[exponent + 1 :].rstrip("0")
        else:
            before, rest = "0", ("0" * (-exponent - 1) + text).rstrip("0")
        return mark + before + (f".{rest}" if rest else "")
    rest = text[1:].rstrip("0")
    return f"{mark}{text[0]}{'.' + rest if rest else ''}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def integer_text(value: int, type: Type, prefix: str = "") -> str:
    """Return an integer; of one byte in C and C++ with its character."""
    if type.kind is TypeKind.CHARACTER or (type.size == 1 and type.language in (Language.C, Language.CPP, Language.GO)):
        size = type.size or 1
        return f"{value} {character_text(value & (1 << 8 * size) - 1, size, prefix)}"
    return str(value)


def is_flags(type: Type) -> bool:
    """Return True for an enumeration whose values are bits, or contiguous bits, that can be combined."""
    half = 1 << 8 * (type.size or 4) - 1
    is_signed = type.encoding in (constants.DW_ATE_signed, constants.DW_ATE_signed_char)
    for _, value in type.enumerators:
        if is_signed and value & half:
            return False
        if value.bit_count() > 1:
            shifted = value >> (value & -value).bit_length() - 1
            if shifted & shifted + 1:
                return False
    return True


def enumeration_text(value: int, type: Type) -> tuple[str, str]:
    """Return the text of an enumeration's value, and its enumerator, "" for none. `value` is unsigned.

    Values that combine several bits are written `(A | B)`, bits without a name `(A | unknown: 0x8)`.
    """
    for name, number in type.enumerators:
        if number == value:
            return name, name
    if type.enumerators and is_flags(type):
        names, rest = [], value
        for name, number in type.enumerators:
            if rest & number:
                names.append(name)
                rest &= ~number
        if rest:
            names.append(f"unknown: {rest:#x}")
        text = f"({' | '.join(names)})" if names else "0"
        return text, ""
    bits = 8 * (type.size or 4)
    is_signed = type.encoding in (constants.DW_ATE_signed, constants.DW_ATE_signed_char)
    return str(value - (1 << bits) if is_signed and value >> bits - 1 else value), ""
