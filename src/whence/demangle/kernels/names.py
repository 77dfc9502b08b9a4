"""One linkage name to its readable form.

Nearly all real names have few references and become a few times as long: they are checked here, without a call into
Python. The demangler holds the GIL, so a caller with many names waits for this code.
"""

import cython
from cython.cimports.cpython.unicode import PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8
from cython.cimports.libc.string import memchr, memcmp
from cython.cimports.whence.demangle.kernels.expansion import count_references

RUST_HASH = cython.declare(cython.Py_ssize_t, 20)  # bytes at the end of a legacy Rust name: "17h", 16 digits, "E"
MAIN_SIZE = cython.declare(cython.Py_ssize_t, 16)  # of the name that clang gives main for WebAssembly
MAX_UNDERSCORES = cython.declare(cython.Py_ssize_t, 4)  # before the Z of C++: macOS and blocks add some


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def is_mangled(name: cython.p_uchar, size: cython.Py_ssize_t) -> cython.bint:
    """Return True for a name of C++ (_Z, up to four underscores), Rust (_R, __R) or Swift ($s, $S, _$s, _T0, _Tt)."""
    index: cython.Py_ssize_t = 0
    while index < size and index <= MAX_UNDERSCORES and name[index] == ord("_"):
        index += 1
    if index == size:
        return False
    if name[index] == ord("Z"):
        return 0 < index <= MAX_UNDERSCORES
    if name[index] == ord("R"):
        return 0 < index <= 2
    if index + 1 == size or index > 1:
        return False
    if name[index] == ord("$"):
        return name[index + 1] in (ord("s"), ord("S"))
    return index == 1 and name[index] == ord("T") and name[index + 1] in (ord("0"), ord("t"))


@cython.final
@cython.cclass
class Demangler:
    """A demangler of linkage names that is loaded with the first name that needs it, and guarded by bounds.

    `load` returns the function that demangles. Names of more than `max_name` bytes, and names whose text has more than
    `max_text` characters, are returned unchanged. A name with more than `max_references` references is demangled only
    if `is_bounded(name)` is true. Once all texts have more than `factor` times the bytes of their names plus
    `allowance` characters, a name is demangled only if `is_bounded(name, factor * size)` is true.
    """

    _load: object
    _text_of: object  # None before the first name
    _is_bounded: object
    _max_name: cython.Py_ssize_t
    _max_text: cython.Py_ssize_t
    _max_references: cython.Py_ssize_t
    _factor: cython.longlong
    _allowance: cython.longlong
    _stored: cython.longlong  # bytes of all names so far
    _spent: cython.longlong  # characters of all their texts

    def __cinit__(
        self, load: object, is_bounded: object, *, max_name: cython.Py_ssize_t, max_text: cython.Py_ssize_t,
        max_references: cython.Py_ssize_t, factor: cython.longlong, allowance: cython.longlong,
    ):  # fmt: skip
        self._load, self._is_bounded = load, is_bounded
        self._max_name, self._max_text, self._max_references = max_name, max_text, max_references
        self._factor, self._allowance = factor, allowance

    @cython.cfunc
    def readable_of_msvc(self, name: str, text: cython.p_uchar, size: cython.Py_ssize_t) -> str:
        """Return the readable form of a name of Microsoft's compiler, or the name itself.

        Any digit may be a reference. Once the budget is spent, names with digits are not demangled.
        """
        references: cython.Py_ssize_t = 0
        index: cython.Py_ssize_t
        for index in range(size):
            references += ord("0") <= text[index] <= ord("9")
        self._stored += size
        spent: cython.bint = self._spent > self._factor * self._stored + self._allowance
        if references > (0 if spent else self._max_references):
            return name
        self.ready()
        result: str = self._text_of(name)
        self._spent += len(result)
        return name if not result or len(result) > self._max_text else result

    def ready(self):
        """Load the demangler now, so that the first name need not wait for it."""
        if self._text_of is None:
            self._text_of = self._load()

    def readable(self, name: str) -> str:
        """Return the readable form of a linkage name, or the name itself."""
        size: cython.Py_ssize_t = 0
        try:
            text = cython.cast(cython.p_uchar, PyUnicode_AsUTF8AndSize(name, cython.address(size)))
        except UnicodeEncodeError:  # bytes that are not UTF-8
            return name
        if size > self._max_name:
            return name
        if size == MAIN_SIZE and memcmp(text, b"__main_argc_argv", MAIN_SIZE) == 0:
            return "main"
        if size and text[0] == ord("?"):
            return self.readable_of_msvc(name, text, size)
        if not is_mangled(text, size):
            return name
        mark = cython.cast(cython.p_uchar, memchr(text, ord("@"), size))  # a version, "plt"
        base: str = name
        suffix: str = ""
        if mark != cython.NULL:
            suffix = PyUnicode_DecodeUTF8(cython.cast(cython.p_char, mark), size - (mark - text), cython.NULL)
            size = mark - text
            base = PyUnicode_DecodeUTF8(cython.cast(cython.p_char, text), size, cython.NULL)
        if text[1] not in (ord("Z"), ord("R")) or count_references(text, size) > self._max_references:
            if not self._is_bounded(base):
                return name
        self._stored += size
        if self._spent > self._factor * self._stored + self._allowance:
            if not self._is_bounded(base, self._factor * size):
                return name
        if self._text_of is None:
            self.ready()
        result: str = self._text_of(base)
        self._spent += len(result)
        if size >= RUST_HASH and text[size - 1] == ord("E") and memcmp(text + size - RUST_HASH, b"17h", 3) == 0:
            digits = PyUnicode_DecodeUTF8(cython.cast(cython.p_char, text) + size - 17, 16, b"replace")
            result = result.removesuffix(f"::h{digits}")  # which some demanglers leave
        if not result or len(result) > self._max_text:
            return name
        return result + suffix if suffix else result
