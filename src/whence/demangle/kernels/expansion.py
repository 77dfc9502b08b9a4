"""The length of the text that a mangled C++ name can become, found in one pass over its tokens.

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
from cython.cimports.whence.demangle.kernels.expansion import count_references, is_capital, is_digit

PLAIN = cython.declare(cython.int, 0)
NUMBER = cython.declare(cython.int, 1)
SUBSTITUTION = cython.declare(cython.int, 2)
PARAMETER = cython.declare(cython.int, 3)
PACK = cython.declare(cython.int, 4)
OPEN = cython.declare(cython.int, 5)
CLOSE = cython.declare(cython.int, 6)
TAG = cython.declare(cython.int, 7)
STANDARD = cython.declare(cython.int, 8)

MAX_NUMBER = cython.declare(cython.longlong, 1 << 30)  # larger numbers count as this: products of two fit in 64 bits
STANDARD_TEXT = cython.declare(cython.longlong, 64)  # of std::string, which may be printed with its arguments
MIN_REFERENCE = cython.declare(cython.longlong, 32)  # characters
MAX_DIGITS = cython.declare(cython.Py_ssize_t, 9)  # of a length
BASE_36 = cython.declare(cython.longlong, 36)


def digits_end(name, offset, size):
    """Return the end of the digits at `offset`, if any."""
    while offset < size and is_digit(name[offset]):
        offset += 1
    return offset


def number_end(name, offset, size, end):
    """Return the end of [0-9]* and the letter `end`; 0 if they are not at `offset`."""
    offset = digits_end(name, offset, size)
    return offset + 1 if offset < size and name[offset] == end else 0


def token_at(name, offset, size, end):
    """Return the kind of the token at `offset`, and set `end`."""
    letter: cython.uchar = name[offset]
    second: cython.uchar = name[offset + 1] if offset + 1 < size else 0
    last: cython.Py_ssize_t = 0
    if is_digit(letter):
        end[0] = digits_end(name, offset, size)
        return NUMBER
    end[0] = offset + 2
    if letter == ord("L") and ord("a") <= second <= ord("z"):
        last = offset + 2
        if last < size and name[last] == ord("n"):
            last += 1
        last = number_end(name, last, size, ord("E"))
    elif letter == ord("A"):
        last = number_end(name, offset + 1, size, ord("_"))
    elif letter == ord("C") or letter == ord("D"):
        last = offset + 2 if is_digit(second) else 0
    elif letter == ord("T") or letter == ord("G"):
        last = offset + 2 if is_capital(second) and number_end(name, offset + 2, size, ord("_")) == 0 else 0
    if last:
        end[0] = last
        return PLAIN
    if letter == ord("S"):
        last = offset + 1
        while last < size and (is_digit(name[last]) or is_capital(name[last])):
            last += 1
        if last < size and name[last] == ord("_"):
            end[0] = last + 1
            return SUBSTITUTION
        if second in (ord("a"), ord("b"), ord("s"), ord("i"), ord("o"), ord("d")):
            return STANDARD
        if second == ord("t"):
            return PLAIN
    elif letter == ord("T"):
        last = number_end(name, offset + 2, size, ord("_")) if second == ord("L") else 0
        last = number_end(name, last if last else offset + 1, size, ord("_"))
        if last:
            end[0] = last
            return PARAMETER
    elif (letter == ord("D") or letter == ord("s")) and second == ord("p"):
        return PACK
    elif letter == ord("U") and second == ord("l"):
        return OPEN
    elif letter == ord("D") and second in (ord("T"), ord("t"), ord("O"), ord("w")):
        return OPEN
    end[0] = offset + 1
    if letter in (ord("I"), ord("N"), ord("F"), ord("X"), ord("J"), ord("L"), ord("Z")):
        return OPEN
    if letter == ord("E"):
        return CLOSE
    return TAG if letter == ord("B") and is_digit(second) else PLAIN


def number_of(name, start, end, base):
    """Return the number of digits and capital letters, at most about MAX_NUMBER."""
    value: cython.longlong = 0
    while start < end and value < MAX_NUMBER:
        value = value * base + (name[start] - ord("0") if is_digit(name[start]) else name[start] - ord("A") + 10)
        start += 1
    return min(value, MAX_NUMBER)


def is_counted(kind):
    """Return True if every part that ends in this bracket can be referred to."""
    return kind == ord("I") or kind == ord("N") or kind == ord("F") or kind == ord("J")


def add_part(walk, longest):
    """Append a part that can be referred to."""
    walk.ends[walk.parts] = longest
    walk.parts += 1


def add_name(walk, length, ends_part):
    """Add a name; `ends_part`: it follows another one of a nested name, which is a part."""
    group: cython.pointer(Group) = walk.groups + (walk.open_groups - 1)
    if ends_part and walk.open_groups and walk.uncounted == 0 and group.kind == ord("N"):
        add_part(walk, max(walk.longest, walk.size - group.start))
    walk.item = walk.size
    walk.size += length
    walk.longest = max(walk.longest, length)
    walk.argument = max(walk.argument, length)


def add_reference(walk, length):
    walk.item = walk.size
    walk.size += max(length, MIN_REFERENCE)


def repeat(walk):
    """Repeat the innermost group, or all of the text, as often as the longest pack has members."""
    group: cython.pointer(Group) = walk.groups + (walk.open_groups - 1)
    if walk.open_groups:
        group.repeated = min(group.repeated * walk.members, MAX_NUMBER)
    else:
        walk.size = min(walk.size * walk.members, MAX_NUMBER)


def open_group(walk, letter, after_name):
    """Open a bracket; `letter` is 0 for those of two letters."""
    group: cython.pointer(Group) = walk.groups + walk.open_groups
    if letter == ord("I"):
        if walk.open_scopes:
            walk.longest = max(walk.longest, walk.size - walk.scopes[0])
        if after_name and walk.uncounted == 0:
            add_part(walk, walk.longest)
        walk.lists += 1
    elif letter == ord("N"):
        walk.scopes[walk.open_scopes] = walk.size
        walk.open_scopes += 1
    walk.uncounted += not is_counted(letter)
    walk.open_groups += 1
    group.start = walk.item if letter == ord("I") else walk.size
    group.repeated, group.members, group.kind = 1, 0, letter


def close_group(walk):
    """Close the innermost bracket, if one is open."""
    if not walk.open_groups:
        return
    walk.open_groups -= 1
    group: cython.pointer(Group) = walk.groups + walk.open_groups
    walk.uncounted -= not is_counted(group.kind)
    walk.lists -= group.kind == ord("I")
    walk.open_scopes -= group.kind == ord("N")
    walk.size = min(group.start + min(walk.size - group.start, MAX_NUMBER) * group.repeated, MAX_NUMBER)
    walk.item = group.start
    walk.longest = max(walk.longest, walk.size - walk.item)
    if walk.lists or group.kind == ord("J"):
        walk.argument = max(walk.argument, walk.size - walk.item)
    if walk.lists and group.kind == ord("I") and walk.uncounted == 0:
        add_part(walk, walk.longest)
    if group.kind == ord("J"):
        walk.members = max(walk.members, group.members)


def estimate(name, size, walk, limit):
    """Return the estimated length of a name's text, or a number above `limit`."""
    offset: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t = 0
    after_name: cython.bint = False  # the previous token is a name
    after_tag: cython.bint = False  # the previous token says that the next name is an ABI tag, not a part
    while offset < size and walk.size <= limit:
        kind: cython.int = token_at(name, offset, size, cython.address(end))
        if kind == NUMBER:
            length: cython.longlong = min(number_of(name, offset, min(end, offset + MAX_DIGITS), 10), size - end)
            add_name(walk, length, after_name and not after_tag)
            end += length
        elif kind == STANDARD:
            add_reference(walk, STANDARD_TEXT)
        elif kind == SUBSTITUTION:
            length = number_of(name, offset + 1, end - 1, BASE_36) + 1 if end - offset > 2 else 0
            add_reference(walk, walk.ends[length] if length < walk.parts else walk.longest)
        elif kind == PARAMETER:
            add_reference(walk, walk.argument)
        elif kind == PACK:
            repeat(walk)
        elif kind == OPEN:
            open_group(walk, name[offset] if end - offset == 1 else 0, after_name)
        elif kind == CLOSE:
            close_group(walk)
        else:
            walk.size += end - offset
        after_name = kind == NUMBER and not after_tag
        after_tag = kind == TAG
        if walk.open_groups:
            walk.groups[walk.open_groups - 1].members += 1
        offset = end
    return walk.size


def references(name: bytes):
    """Return an upper bound of the references in a name of C++ or Rust: each ends in "_", or is a pack."""
    text: cython.p_char = name
    return count_references(cython.cast(cython.p_uchar, text), len(name))


def expansion(name: bytes, limit: cython.longlong):
    """Return an upper bound, within a factor of three, of a C++ name's own characters and those it refers to.

    The name is not parsed, only its brackets are matched. The j-th substitution counts as the longest part at the time
    when j parts had surely ended; a template parameter as the longest argument before it; a pack repeats its group as
    often as the longest pack has members. So the sum errs upwards. The walk stops above `limit`. Raises MemoryError.
    """
    size: cython.Py_ssize_t = len(name)
    text: cython.p_char = name
    walk: Walk
    entries: cython.Py_ssize_t = size + 1  # a token adds at most one group, one scope and one part
    walk.groups = cython.cast(
        cython.pointer(Group), malloc(entries * (cython.sizeof(Group) + 2 * cython.sizeof(cython.longlong)))
    )
    if walk.groups == cython.NULL:
        raise MemoryError
    walk.scopes = cython.cast(cython.p_longlong, walk.groups + entries)
    walk.ends = walk.scopes + entries
    walk.open_groups = walk.open_scopes = walk.parts = walk.uncounted = walk.lists = 0
    walk.size = walk.item = walk.longest = walk.argument = 0
    walk.members = 1
    with cython.nogil:
        result: cython.longlong = estimate(
            cython.cast(cython.p_uchar, text), size, cython.address(walk), min(limit, MAX_NUMBER)
        )
    free(walk.groups)
    return result
