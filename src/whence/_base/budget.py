"""Limits of work and memory: a constant times the stored bytes, plus an allowance.

A few bytes of a file can demand any amount of work: names that share one long string, ranges that share line entries,
counts of things that take no bytes. Readers charge their work to a budget; the error says which bound was reached.
docs/bounds.md lists the constants. Kernels count for themselves and are given `most`.

>>> budget = Budget("strings", "names together", 10, times=4, allowance=2)
>>> budget.most
42
>>> budget.charge(40)
>>> budget.charge(3)
Traceback (most recent call last):
whence._base.errors.FormatError: format strings: names together take more than 4 times its 10 bytes plus 2
"""

from __future__ import annotations

from whence._base.errors import FormatError


class Budget:
    """A budget of `times * stored + allowance` bytes. `what` is the subject of the error, a plural."""

    __slots__ = ("allowance", "error", "part", "spent", "stored", "times", "what")

    def __init__(
        self, part: str, what: str, stored: int, *, times: int, allowance: int, error: type[FormatError] = FormatError
    ) -> None:
        self.part, self.what, self.error = part, what, error
        self.stored, self.times, self.allowance = stored, times, allowance
        self.spent = 0

    @property
    def most(self) -> int:
        return self.times * self.stored + self.allowance

    def grow(self, stored: int) -> None:
        """Set the number of stored bytes, while a stream is read."""
        self.stored = stored

    def charge(self, amount: int) -> None:
        """Spend a part of the budget. Raises the error if it is used up."""
        self.spent += amount
        if self.spent > self.times * self.stored + self.allowance:
            raise self.reached()

    def reached(self) -> FormatError:
        """Return the error of a budget that is used up."""
        most = f"{self.times} times its {self.stored} bytes plus {self.allowance}"
        return self.error(self.part, None, f"{self.what} take more than {most}")
