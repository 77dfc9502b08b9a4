"""Which part of a program a function belongs to: what one package, namespace, crate or folder holds has one hue.

    Go                      the package: github.com/a/b.(*T).F -> github.com/a/b
    C++, Rust               the outermost namespace or crate: <alloc::vec::Vec<T> as Drop>::drop -> alloc
    everything else         the folder of its file

>>> package("github.com/a/b.(*T[go.shape.int]).F", "/go/b.go"), package("main.main.func1", "/app/main.go")
('github.com/a/b', 'main')
>>> package("void std::sort<a::B*>(a::B*, a::B*)", ""), package("<alloc::vec::Vec<T> as Drop>::drop", "")
('std', 'alloc')
>>> package("kmalloc", "/linux/mm/slab.c"), package("_start", "")
('/linux/mm', '')
>>> package("memeqbody", "/usr/local/go/src/internal/bytealg/equal_amd64.s")
'internal/bytealg'
"""

from __future__ import annotations

GO_ENDINGS = (".go", ".s")
LOOKED_AT = 400  # characters of a name


def package(name: str, file: str) -> str:
    """The package, namespace, crate or folder of a function; "" where neither its name nor its file says it."""
    name = name[:LOOKED_AT]
    if file.endswith(GO_ENDINGS) or (".(*" in name and "::" not in name):
        found = go_package(name)
        if found or file.endswith(".go"):
            return found
        folder = file.rpartition("/")[0]  # assembly has names without a package
        return folder.rpartition("/src/")[2] or folder
    if "::" in name:
        return namespace(name)
    return file.rpartition("/")[0]


def go_package(name: str) -> str:
    """What stands before the first point behind the last slash; brackets of type arguments hold other packages."""
    for bracket in "[(":
        name = name.partition(bracket)[0]
    folder, slash, rest = name.rpartition("/")
    own, point, _ = rest.partition(".")
    return folder + slash + own if point else ""


def namespace(name: str) -> str:
    """The first part of a qualified name, which may stand behind a return type and before parameters."""
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
