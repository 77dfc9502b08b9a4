"""One linkage name to its readable form: what may go into the demangler, and what comes of it.

Of real names nearly all have few references and come out a few times as long: those are looked at here alone. Whoever
shows many names waits for this under the interpreter's lock, as the demangler keeps it.
"""

import cython
from cython.cimports.cpython.unicode import PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8
from cython.cimports.libc.string import memchr, memcmp
from cython.cimports.whence.demangle.kernels.expansion import count_references

RUST_HASH = cython.declare(cython.Py_ssize_t, 20)  # of a legacy name of Rust the end: "17h", 16 digits, "E"
MOST_UNDERSCORES = cython.declare(cython.Py_ssize_t, 4)  # in front of the Z of C++: macOS and blocks add some


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def is_mangled(name: cython.p_uchar, size: cython.Py_ssize_t) -> cython.bint:
    """Whether a name begins as C++ ("_Z", with up to four underscores), Rust ("_R", "__R") or Swift has it ("$s", "$S",
    "_$s", "_$S", "_T0", "_Tt")."""
    at: cython.Py_ssize_t = 0
    while at < size and at <= MOST_UNDERSCORES and name[at] == ord("_"):
        at += 1
    if at == size:
        return False
    if name[at] == ord("Z"):
        return 0 < at <= MOST_UNDERSCORES
    if name[at] == ord("R"):
        return 0 < at <= 2
    if at + 1 == size or at > 1:
        return False
    if name[at] == ord("$"):
        return name[at + 1] in (ord("s"), ord("S"))
    return at == 1 and name[at] == ord("T") and name[at + 1] in (ord("0"), ord("t"))


@cython.final
@cython.cclass
class Demangler:
    """Readable names by a demangler of linkage names, which is loaded by the first that needs it.

    `bounded(name, most)` says of a name with many references whether its text has at most so many characters for
    certain (0: as many as are reasonable). Names of more than `longest` bytes stay as they are, so do those whose text
    has more than `longest_text` characters; `few` references do no harm. All texts together take `times` the bytes of
    their names and `allowance`, those aside whose text is short for certain.
    """

    _load: object
    _text_of: object  # None before the first name
    _bounded: object
    _longest: cython.Py_ssize_t
    _longest_text: cython.Py_ssize_t
    _few: cython.Py_ssize_t
    _times: cython.longlong
    _allowance: cython.longlong
    _stored: cython.longlong  # bytes of the names so far
    _spent: cython.longlong  # characters of their texts

    def __cinit__(
        self, load: object, bounded: object, *, longest: cython.Py_ssize_t, longest_text: cython.Py_ssize_t,
        few: cython.Py_ssize_t, times: cython.longlong, allowance: cython.longlong,
    ):  # fmt: skip
        self._load, self._bounded = load, bounded
        self._longest, self._longest_text, self._few = longest, longest_text, few
        self._times, self._allowance = times, allowance

    def ready(self):
        """Load the demangler now: the first name that needs it then waits for nothing."""
        if self._text_of is None:
            self._text_of = self._load()

    def readable(self, name: str) -> str:
        """The readable form of a linkage name; the name itself when there is none."""
        size: cython.Py_ssize_t = 0
        try:
            text = cython.cast(cython.p_uchar, PyUnicode_AsUTF8AndSize(name, cython.address(size)))
        except UnicodeEncodeError:  # bytes that are not UTF-8
            return name
        if size > self._longest or not is_mangled(text, size):
            return name
        at = cython.cast(cython.p_uchar, memchr(text, ord("@"), size))  # a version, "plt"
        base: str = name
        behind: str = ""
        if at != cython.NULL:
            behind = PyUnicode_DecodeUTF8(cython.cast(cython.p_char, at), size - (at - text), cython.NULL)
            size = at - text
            base = PyUnicode_DecodeUTF8(cython.cast(cython.p_char, text), size, cython.NULL)
        if text[1] not in (ord("Z"), ord("R")) or count_references(text, size) > self._few:
            if not self._bounded(base, 0):
                return name
        self._stored += size
        if self._spent > self._times * self._stored + self._allowance:
            if not self._bounded(base, self._times * size):
                return name
        if self._text_of is None:
            self.ready()
        found: str = self._text_of(base)
        self._spent += len(found)
        if size >= RUST_HASH and text[size - 1] == ord("E") and memcmp(text + size - RUST_HASH, b"17h", 3) == 0:
            digits = PyUnicode_DecodeUTF8(cython.cast(cython.p_char, text) + size - 17, 16, b"replace")
            found = found.removesuffix(f"::h{digits}")  # which some demanglers leave
        if not found or len(found) > self._longest_text:
            return name
        return found + behind if behind else found
