"""Values of the libraries of languages: strings, vectors, maps, options, smart pointers.

A type that has the name of a container but not its members is shown as the structure that it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence.types import cplusplus, golang, rust
from whence.types.model import Language
from whence.types.parts import Part, Unfit

if TYPE_CHECKING:
    from whence.types.decoding import Decoder
    from whence.types.model import Type, Value
    from whence.types.storage import Storage

SHOW = {Language.CPP: cplusplus.show, Language.RUST: rust.show, Language.GO: golang.show}


def container_value(decoder: Decoder, type: Type, storage: Storage, depth: int) -> Value | None:
    """Return the value of a container or smart pointer of a language's library; None for other types."""
    show = SHOW.get(type.plain.language)
    if show is None:
        return None
    try:
        return show(Part(decoder, type, storage), depth)
    except Unfit:
        return None
