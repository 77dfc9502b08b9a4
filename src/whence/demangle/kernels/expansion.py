"""How long the text of a mangled name of C++ can become: the name is walked through once, token by token.

The next token of a name is the first of these that matches:

    number         [0-9]+                   the length of the name that follows
    plain          L[a-z]n?[0-9]*E          a literal
                   A[0-9]*_                 an array bound
                   [CD][0-9]                a constructor, a destructor
                   [TG][A-Z](?![0-9]*_)     a vtable, a guard
    substitution   S[0-9A-Z]*_
    parameter      T(L[0-9]*_)?[0-9]*_
    pack           Dp|sp
    open           [INFXJLZ]|Ul|DT|Dt|DO|Dw
    close          E
    tag            B(?=[0-9])
    standard       S[absiod]                std::allocator, std::string and others
    plain          St|.
"""

import cython
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memchr

PLAIN = cython.declare(cython.int, 0)
NUMBER = cython.declare(cython.int, 1)
SUBSTITUTION = cython.declare(cython.int, 2)
PARAMETER = cython.declare(cython.int, 3)
PACK = cython.declare(cython.int, 4)
OPEN = cython.declare(cython.int, 5)
CLOSE = cython.declare(cython.int, 6)
TAG = cython.declare(cython.int, 7)
STANDARD = cython.declare(cython.int, 8)

NO_MORE = cython.declare(cython.longlong, 1 << 30)  # what a larger number counts as: products of two stay in 64 bits
STANDARD_TEXT = cython.declare(cython.longlong, 64)  # of std::string, which may be printed with its arguments
LEAST_REFERENCE = cython.declare(cython.longlong, 32)  # the text of a reference, at least
MOST_DIGITS = cython.declare(cython.Py_ssize_t, 9)  # of a length that are read
BASE_36 = cython.declare(cython.longlong, 36)

Group = cython.struct(  # an open bracket
    start=cython.longlong,  # where it starts in the text
    repeated=cython.longlong,  # how often a pack repeats it
    members=cython.longlong,  # so far
    kind=cython.int,  # its letter; 0 where it has two
)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def is_one_of(
    letter: cython.uchar, letters: cython.pointer(cython.const[cython.char]), count: cython.size_t
) -> cython.bint:
    return memchr(letters, letter, count) != cython.NULL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def is_digit(letter: cython.uchar) -> cython.bint:
    return ord("0") <= letter <= ord("9")


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def is_capital(letter: cython.uchar) -> cython.bint:
    return ord("A") <= letter <= ord("Z")


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def digits_end(name: cython.p_uchar, at: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Where the digits end that begin here, if any do."""
    while at < size and is_digit(name[at]):
        at += 1
    return at


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def number_end(
    name: cython.p_uchar, at: cython.Py_ssize_t, size: cython.Py_ssize_t, end: cython.uchar
) -> cython.Py_ssize_t:
    """Where [0-9]* and the letter that ends them end; 0 when they are not here."""
    at = digits_end(name, at, size)
    return at + 1 if at < size and name[at] == end else 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def token_at(
    name: cython.p_uchar, at: cython.Py_ssize_t, size: cython.Py_ssize_t, end: cython.pointer(cython.Py_ssize_t)
) -> cython.int:
    """The kind of the token that begins here, and where it ends."""
    letter: cython.uchar = name[at]
    second: cython.uchar = name[at + 1] if at + 1 < size else 0
    found: cython.Py_ssize_t = 0
    if is_digit(letter):
        end[0] = digits_end(name, at, size)
        return NUMBER
    end[0] = at + 2
    if letter == ord("L") and ord("a") <= second <= ord("z"):
        found = at + 2
        if found < size and name[found] == ord("n"):
            found += 1
        found = number_end(name, found, size, ord("E"))
    elif letter == ord("A"):
        found = number_end(name, at + 1, size, ord("_"))
    elif letter == ord("C") or letter == ord("D"):
        found = at + 2 if is_digit(second) else 0
    elif letter == ord("T") or letter == ord("G"):
        found = at + 2 if is_capital(second) and number_end(name, at + 2, size, ord("_")) == 0 else 0
    if found:
        end[0] = found
        return PLAIN
    if letter == ord("S"):
        found = at + 1
        while found < size and (is_digit(name[found]) or is_capital(name[found])):
            found += 1
        if found < size and name[found] == ord("_"):
            end[0] = found + 1
            return SUBSTITUTION
        if second and is_one_of(second, b"absiod", 6):
            return STANDARD
        if second == ord("t"):
            return PLAIN
    elif letter == ord("T"):
        found = number_end(name, at + 2, size, ord("_")) if second == ord("L") else 0
        found = number_end(name, found if found else at + 1, size, ord("_"))
        if found:
            end[0] = found
            return PARAMETER
    elif (letter == ord("D") or letter == ord("s")) and second == ord("p"):
        return PACK
    elif (letter == ord("U") and second == ord("l")) or (
        letter == ord("D") and second and is_one_of(second, b"TtOw", 4)
    ):
        return OPEN
    end[0] = at + 1
    if is_one_of(letter, b"INFXJLZ", 7):
        return OPEN
    if letter == ord("E"):
        return CLOSE
    return TAG if letter == ord("B") and is_digit(second) else PLAIN


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def number_of(
    name: cython.p_uchar, start: cython.Py_ssize_t, end: cython.Py_ssize_t, base: cython.longlong
) -> cython.longlong:
    """The number that digits and capital letters are; NO_MORE for a larger one."""
    value: cython.longlong = 0
    while start < end and value < NO_MORE:
        value = value * base + (name[start] - ord("0") if is_digit(name[start]) else name[start] - ord("A") + 10)
        start += 1
    return min(value, NO_MORE)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def is_plain(kind: cython.int) -> cython.bint:
    """Whether every part that ends in this bracket can be referred to."""
    return kind == ord("I") or kind == ord("N") or kind == ord("F") or kind == ord("J")


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def walk(
    name: cython.p_uchar,
    left: cython.Py_ssize_t,
    groups: cython.pointer(Group),
    scopes: cython.p_longlong,
    ended: cython.p_longlong,
    most: cython.longlong,
) -> cython.longlong:
    """The sum, or one above `most`. There is room for a group, a scope and a part for each byte: a token adds no more
    than one of each.

    `groups` are the open ones; `scopes` where those of nested names start; `ended` has the longest part so far at the
    end of each part that can be referred to.
    """
    size: cython.longlong = 0
    longest: cython.longlong = 0
    argument: cython.longlong = 0
    item: cython.longlong = 0
    members: cython.longlong = 1
    length: cython.longlong
    open_groups: cython.Py_ssize_t = 0
    open_scopes: cython.Py_ssize_t = 0
    parts: cython.Py_ssize_t = 0
    uncounted: cython.Py_ssize_t = 0  # groups that are not plain
    lists: cython.Py_ssize_t = 0  # groups that are lists of arguments
    at: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t = 0
    kind: cython.int
    letter: cython.int
    named: cython.bint = False  # the token before was a name
    tagged: cython.bint = False  # the token before says that the next name is no part (an ABI tag)
    after_name: cython.bint
    counted: cython.bint
    group: cython.pointer(Group)
    while at < left and size <= most:
        kind = token_at(name, at, left, cython.address(end))
        counted = uncounted == 0
        after_name = named
        named = False
        group = groups + (open_groups - 1) if open_groups else cython.NULL
        if kind == NUMBER:
            length = number_of(name, at, min(end, at + MOST_DIGITS), 10)
            length = min(length, left - end)
            if after_name and counted and not tagged and group != cython.NULL and group.kind == ord("N"):
                ended[parts] = max(longest, size - group.start)
                parts += 1
            item = size
            size += length
            end += length
            longest = max(longest, length)
            argument = max(argument, length)
            named = not tagged
        elif kind == STANDARD:
            item = size
            size += STANDARD_TEXT
        elif kind == SUBSTITUTION:
            length = number_of(name, at + 1, end - 1, BASE_36) + 1 if end - at > 2 else 0
            item = size
            size += max(ended[length] if length < parts else longest, LEAST_REFERENCE)
        elif kind == PARAMETER:
            item = size
            size += max(argument, LEAST_REFERENCE)
        elif kind == PACK:
            if group != cython.NULL:
                group.repeated = min(group.repeated * members, NO_MORE)
            else:
                size = min(size * members, NO_MORE)
        elif kind == OPEN:
            letter = name[at] if end - at == 1 else 0
            if letter == ord("I"):
                if open_scopes:
                    longest = max(longest, size - scopes[0])
                if after_name and counted:
                    ended[parts] = longest
                    parts += 1
                lists += 1
            elif letter == ord("N"):
                scopes[open_scopes] = size
                open_scopes += 1
            uncounted += not is_plain(letter)
            group = groups + open_groups
            open_groups += 1
            group.start = item if letter == ord("I") else size
            group.repeated, group.members, group.kind = 1, 0, letter
        elif kind == CLOSE and group != cython.NULL:
            open_groups -= 1
            uncounted -= not is_plain(group.kind)
            lists -= group.kind == ord("I")
            open_scopes -= group.kind == ord("N")
            size = min(group.start + min(size - group.start, NO_MORE) * group.repeated, NO_MORE)
            item = group.start
            longest = max(longest, size - item)
            if lists or group.kind == ord("J"):
                argument = max(argument, size - item)
            if lists and group.kind == ord("I") and uncounted == 0:
                ended[parts] = longest
                parts += 1
            if group.kind == ord("J"):
                members = max(members, group.members)
        elif kind != CLOSE:
            size += end - at
        tagged = kind == TAG
        if open_groups:
            groups[open_groups - 1].members += 1
        at = end
    return size


def references(name: bytes):
    """How many references to its own parts a name of C++ or Rust has, or more: each ends in "_", or is a pack."""
    text: cython.p_char = name
    return count_references(cython.cast(cython.p_uchar, text), len(name))


def expansion(name: bytes, most: cython.longlong):
    """More characters than a C++ name's own characters and the parts it refers to add up to, within a factor of three.

    The name is not parsed, only bracketed. The j-th substitution counts as the longest part there was when surely j
    parts had ended; a template parameter as the longest argument before it; a pack repeats what is around it as often
    as the longest pack has members. So the sum errs upwards. It ends above `most`. MemoryError.
    """
    size: cython.Py_ssize_t = len(name)
    text: cython.p_char = name
    found: cython.longlong
    groups: cython.pointer(Group) = cython.cast(
        cython.pointer(Group), malloc((size + 1) * (cython.sizeof(Group) + 2 * cython.sizeof(cython.longlong)))
    )
    if groups == cython.NULL:
        raise MemoryError
    scopes: cython.p_longlong = cython.cast(cython.p_longlong, groups + (size + 1))
    with cython.nogil:
        found = walk(cython.cast(cython.p_uchar, text), size, groups, scopes, scopes + (size + 1), min(most, NO_MORE))
    free(groups)
    return found
