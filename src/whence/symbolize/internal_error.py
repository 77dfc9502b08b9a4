"""Exceptions inside a batch: a fault of a file is a reason, a bug of whence is `internal-error`.

An exception that is not one of whence's or the system's is a bug. The batch continues; the bug is logged with its
traceback by the logger `whence`. Tests set `reraise`, so that no bug is hidden.
"""

from __future__ import annotations

from whence._base.errors import WhenceError
from whence._base.reasons import Reason

FILES_OWN = (WhenceError, OSError, MemoryError)
"""What a damaged file, or one too large for this machine, raises."""

reraise = False


def reason_of(error: Exception, doing: str, *, log: bool = True) -> tuple[Reason, str]:
    """Return the reason and the detail for an exception of a reader; a bug is logged, if `log`.

    `doing` describes the operation for the log. Raises a bug again if `reraise` is set.
    """
    if isinstance(error, FILES_OWN):
        return Reason.BROKEN_FILE, str(error) or "there is not enough memory"
    if reraise:
        raise error
    if log:
        import logging

        logging.getLogger("whence").error("internal error while %s", doing, exc_info=error)
    return Reason.INTERNAL_ERROR, f"{type(error).__name__}: {error}"
