"""The package, namespace, crate or folder of a function; each has a hue of its own.

    Go                      the package: github.com/a/b.(*T).F -> github.com/a/b
    C++, Rust               the outermost namespace or crate: <alloc::vec::Vec<T> as Drop>::drop -> alloc
    Python                  the installed package: .../site-packages/numpy/linalg/linalg.py -> numpy; "python" for the
                            standard library, else the folder
    everything else         the folder of its file

>>> package("github.com/a/b.(*T[go.shape.int]).F", "/go/b.go"), package("main.main.func1", "/app/main.go")
('github.com/a/b', 'main')
>>> package("void std::sort<a::B*>(a::B*, a::B*)", ""), package("<alloc::vec::Vec<T> as Drop>::drop", "")
('std', 'alloc')
>>> package("kmalloc", "/linux/mm/slab.c"), package("_start", "")
('/linux/mm', '')
>>> package("solve", "/usr/lib/python3/dist-packages/numpy/linalg/linalg.py"), package("run", "/srv/app/run.py")
('numpy', '/srv/app')
>>> package("get", "/usr/lib/python3.13/queue.py"), package("_call", "<frozen importlib._bootstrap>")
('python', 'python')
>>> package("memeqbody", "/usr/local/go/src/internal/bytealg/equal_amd64.s")
'internal/bytealg'
"""

from __future__ import annotations

import re

GO_ENDINGS = (".go", ".s")
INSTALLED = ("/site-packages/", "/dist-packages/")
FROZEN = "<frozen "
LIBRARY = re.compile(r"/lib/python3\.[0-9]+/")
LONGEST = 400  # characters of a name that are parsed


def package(name: str, file: str) -> str:
    """Return the package, namespace, crate or folder of a function; "" if name and file don't have it."""
    name = name[:LONGEST]
    if is_python(file):
        return python_package(file)
    if file.endswith(GO_ENDINGS) or (".(*" in name and "::" not in name):
        package = go_package(name)
        if package or file.endswith(".go"):
            return package
        folder = file.rpartition("/")[0]  # names in assembly have no package
        return folder.rpartition("/src/")[2] or folder
    if "::" in name:
        return namespace(name)
    return file.rpartition("/")[0]


def is_python(file: str) -> bool:
    """Return True if a file has Python source, or is a module that CPython contains."""
    return file.endswith(".py") or file.startswith(FROZEN)


def python_package(file: str) -> str:
    """Return the installed package of a file of Python, "python" for the standard library, or the folder."""
    for folder in INSTALLED:
        _, separator, path = file.rpartition(folder)
        if separator:
            return path.partition("/")[0].removesuffix(".py")
    return "python" if file.startswith(FROZEN) or LIBRARY.search(file) else file.rpartition("/")[0]


def go_package(name: str) -> str:
    """Return the part of a name up to the first point after the last slash, without type arguments."""
    for bracket in "[(":
        name = name.partition(bracket)[0]
    folder, slash, rest = name.rpartition("/")
    last, point, _ = rest.partition(".")
    return folder + slash + last if point else ""


def namespace(name: str) -> str:
    """Return the first part of a qualified name, which may have a return type and parameters."""
    while name.startswith("<"):  # <T as Trait>::method and <T>::method are T's
        name = name[1:].lstrip("&*").removeprefix("mut ").removeprefix("dyn ")
    name = name.replace("(anonymous namespace)", "{anonymous}")
    depth, start = 0, 0
    for index, letter in enumerate(name):
        if letter in "<[{":
            depth += 1
        elif letter in ">]}":
            depth -= depth > 0
        elif depth == 0 and letter == " ":
            start = index + 1
        elif depth == 0 and letter == "(" and index > start:
            break
        elif depth == 0 and letter == ":" and name.startswith("::", index):
            first = name[start:index].partition("<")[0].lstrip("*&")
            if first:
                return first
            start = index + 2
    return ""
