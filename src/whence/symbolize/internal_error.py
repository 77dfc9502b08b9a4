"""Exceptions inside a batch: what is wrong with a file is its reason, what is wrong with whence is `internal-error`.

An exception that is not of whence's or the system's own kind is a bug. The batch goes on, for the other addresses have
their answers; the bug is logged with its traceback, by the logger `whence`. Tests set `reraise`, so that none hides.
"""

from __future__ import annotations

import logging

from whence._base.errors import WhenceError
from whence._base.reasons import Reason

FILES_OWN = (WhenceError, OSError, MemoryError)
"""What a damaged file, or one too large for this machine, raises."""

reraise = False


def reason_of(error: Exception, doing: str, *, log: bool = True) -> tuple[Reason, str]:
    """The reason and the detail for an exception of a reader; one that is not ours is logged, if `log`.

    `doing` is what was being done, for the log. Raises the error again where `reraise` is set and it is not ours.
    """
    if isinstance(error, FILES_OWN):
        return Reason.BROKEN_FILE, str(error) or "there is not enough memory"
    if reraise:
        raise error
    if log:
        logging.getLogger("whence").error("internal error while %s", doing, exc_info=error)
    return Reason.INTERNAL_ERROR, f"{type(error).__name__}: {error}"
