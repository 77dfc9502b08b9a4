"""One way to say where names come from, for every function that needs a Locator."""

from __future__ import annotations

from whence._base.errors import WrongUse
from whence._base.records import as_dict
from whence.locator.locator import Locator
from whence.locator.options import LOCATOR_NAMES, LocatorOptions, options_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Unpack

    from whence.locator.options import LocatorFields, Sources

    Places = Locator | Sources
    """A source of names: a Locator, a Store, the keywords of a Locator as a mapping, or a path or address."""


def locator_from(places: Places | None = None, /, **fields: Unpack[LocatorFields]) -> Locator:
    """Return a Locator: `places` itself if it is one, else one with these sources.

    Args:
        places: a Locator; a Store; a path or address of a store, of a folder of archives or debug files, or of a file;
            a mapping of the keywords of a Locator; None.
        fields: the keywords of a Locator.

    Raises:
        WrongUse: a Locator and keywords are given, or a folder has no store, archives or debug files.
        TypeError: a keyword or a type is unknown.
        OSError: a path does not exist, or can't be read.
    """
    if isinstance(places, Locator):
        check_no_fields(fields)
        return places
    return Locator(places, **fields)


def plain_places(places: Places | None, fields: Mapping[str, Any]) -> Any:
    """Return the sources as values that a worker process makes its own Locator of: a dict, or a Locator.

    Paths are recognized now, so that a mistake is an error here and not in a worker.
    """
    if isinstance(places, Locator):
        check_no_fields(fields)
        return places
    defaults = as_dict(LocatorOptions())
    options = as_dict(options_from(places, fields))
    return {name: value for name, value in options.items() if value != defaults[name]}


def check_no_fields(fields: Mapping[str, Any]) -> None:
    """Raise WrongUse if there are keywords next to a Locator."""
    if fields:
        names = ", ".join(f"{name}=..." for name in fields)
        raise WrongUse(f"a Locator and keywords that say where names come from: give them to it, Locator({names})")


def split_fields(fields: Mapping[str, Any], own: frozenset[str] = frozenset()) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the keywords of a Locator, and the other ones. Those in `own` are other ones."""
    names = LOCATOR_NAMES - own
    of_locator = {name: value for name, value in fields.items() if name in names}
    return of_locator, {name: value for name, value in fields.items() if name not in names}
