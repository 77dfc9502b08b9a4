"""Values of the libraries of languages: strings, vectors, maps, options, smart pointers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whence.types.decoding import Decoder
    from whence.types.model import Type, Value
    from whence.types.storage import Storage


def container_value(decoder: Decoder, type: Type, storage: Storage, depth: int) -> Value | None:
    """Return the value of a container or smart pointer of a language's library; None for other types."""
    return None
