"""Arguments and local variables of frames: names, types and values, by debug info (DWARF 2 to 5).

Input: a process's code and memory, and the registers of its frames (whence.unwind.recording). Output, through
ProcessValues: Variables, plain objects that need no open file. Read only on request. Values are written as gdb writes
them, containers as the debugger scripts of their libraries do.

    frames.py       ProcessValues: the variables of the frames of a process; what location expressions refer to
    scopes.py       the variables in scope at an address, and their locations
    locating.py     location expressions (DWARF 5, section 2.6)
    storage.py      where the bytes of a value are: memory, registers, the debug info, or nowhere
    type_reader.py  types (DWARF 5, chapter 5)
    decoding.py     values from bytes, within limits
    containers.py   values of the libraries of languages
      cplusplus.py  libstdc++ and libc++
      rust.py       Rust, in the form of its Debug trait
      golang.py     Go
      parts.py      members by name, elements that follow each other, maps
    text.py         numbers, characters, strings and enumerations as text
    symbols.py      names of the functions and objects that pointers point to
    model.py        Type, Value, Variable

Damaged types, lists and expressions cost the variables that need them: these have the kind "missing" and a reason.
docs/bounds.md has the bounds.
"""

from whence._base.lazy import attach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from whence.types.decoding import Limits
    from whence.types.model import Field, Value, ValueKind, Variable

__all__ = ["Field", "Limits", "Value", "ValueKind", "Variable"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "Field": "whence.types.model",
            "Limits": "whence.types.decoding",
            "Value": "whence.types.model",
            "ValueKind": "whence.types.model",
            "Variable": "whence.types.model",
        },
    )
