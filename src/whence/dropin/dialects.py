"""Readable names in the forms of LLVM and GNU.

LLVM since 15     `A<B<int>>`, `f() (.cold)`, `'lambda'(int)`; names of Rust before v0 as if they were C++
LLVM 14           like LLVM 15, except `A<B<int> >` in names of C++
GNU               `A<B<int> >`, `f() [clone .cold]`, `{lambda(int)#1}`, `decltype(nullptr)` in names of C++; names of
                  Rust with `>>`, without their hash, and without a suffix
"""

from __future__ import annotations

import re

from whence.demangle import demangle

RUST = "_R"  # prefix of names of version 0
CLOSING = re.compile(r"(?<!operator)>(?=>)")
SHIFT = re.compile(r"operator<<(?=<)")  # followed by template arguments, which GNU separates by a blank
LESS = re.compile(r"operator<<(?=[^<(=> ])")
RUST_HASH = re.compile(r"17(h[0-9a-f]{16})E")
SIZE = re.compile(r"[1-9][0-9]*")
CLONE = re.compile(r" \((\.[\w.]+)\)\Z")
CLONE_PART = re.compile(r"\.[^.\d][^.]*(?:\.\d+)*|\.\d+")
LAMBDA_OR_BRACKET = re.compile(r"'lambda(\d*)'\(|[()]")


def llvm(name: str) -> str:
    return name if "@" in name else legacy_rust(name) or demangle(name)


def llvm_14(name: str) -> str:
    text = llvm(name)
    return text if name.startswith(RUST) else apart(text)


def gnu(name: str) -> str:
    base, separator, version = name.partition("@")
    if rust := rust_name(base):
        return demangle(rust) + separator + version
    text = apart(demangle(base))
    if clone := CLONE.search(text):
        parts = CLONE_PART.findall(clone[1])
        text = text[: clone.start()] + "".join(f" [clone {part}]" for part in parts)
    if "operator<" in text:
        text = LESS.sub("operator< <", SHIFT.sub("operator<< ", text))
    if "std::nullptr_t" in text and "Dn" in base:
        text = text.replace("std::nullptr_t", "decltype(nullptr)")
    if "'lambda" in text:
        text = gnu_lambdas(text)
    return text + separator + version


def gnu_lambdas(text: str) -> str:
    """Return a text with lambdas in GNU's form.

    >>> gnu_lambdas("f()::'lambda'(int (*)())::operator()(int) const::'lambda0'()")
    'f()::{lambda(int (*)())#1}::operator()(int) const::{lambda()#2}'
    """
    parts = []
    end = 0
    lambdas: list[tuple[int, int]] = []  # open lambdas: depth of brackets, number
    depth = 0
    for match in LAMBDA_OR_BRACKET.finditer(text):
        parts.append(text[end : match.start()])
        end = match.end()
        if match[0] == ")":
            depth -= 1
            if lambdas and lambdas[-1][0] == depth:
                parts.append(f")#{lambdas.pop()[1]}}}")
                continue
        elif match[0] != "(":
            lambdas.append((depth, int(match[1]) + 2 if match[1] else 1))
            parts.append("{lambda")
            depth += 1
            parts.append("(")
            continue
        else:
            depth += 1
        parts.append(match[0])
    parts.append(text[end:])
    return "".join(parts)


def apart(text: str) -> str:
    """Separate consecutive `>` that close argument lists by a blank.

    >>> apart("std::vector<std::vector<int>> operator>>(A<B<C>>&)")
    'std::vector<std::vector<int> > operator>>(A<B<C> >&)'
    """
    return CLOSING.sub("> ", text) if ">>" in text else text


def rust_name(name: str) -> str:
    """Return a linkage name of Rust without the suffix that a tool added; "" for names of other languages.

    >>> rust_name("_RNvC1a1f.llvm.12"), rust_name("_ZN1a1f17h0123456789abcdefE.cold"), rust_name("_ZN1a1fEv.cold")
    ('_RNvC1a1f', '_ZN1a1f17h0123456789abcdefE', '')
    """
    if name.startswith(RUST):
        return name.partition(".")[0]
    match = RUST_HASH.search(name)
    return name[: match.end()] if match is not None and legacy_rust(name) else ""


def legacy_rust(name: str) -> str:
    """Demangle a name of Rust before v0 by C++'s rules, without hashes and escapes; "" for other names.

    >>> legacy_rust("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE")
    'core::fmt::Write::write_fmt::h0123456789abcdef'
    """
    match = RUST_HASH.search(name)
    if match is None or not name.startswith("_ZN"):
        return ""
    parts, offset = [], 3
    while offset < match.start() and (digits := SIZE.match(name, offset)):
        end = digits.end() + int(digits[0])
        parts.append(name[digits.end() : end])
        offset = end
    if offset != match.start():
        return ""
    suffix = name[match.end() :]
    return "::".join([*parts, match[1]]) + (f" ({suffix})" if suffix else "")
