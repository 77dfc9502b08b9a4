"""How much a reader may do: a constant times the bytes that are stored, plus an allowance.

A few bytes of a file can ask for any amount of work: names that share one long string, ranges that share line entries,
counts of things that take no bytes. Readers charge what they do to a budget; the error says which bound was reached.
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
    """What is left of `times * stored + allowance`, in bytes. `what` is the plural that the error speaks of."""

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
        """So many bytes are known to be stored now: of what is read as it comes."""
        self.stored = stored

    def charge(self, amount: int) -> None:
        """Spend some of it. Raises the error when it is used up."""
        self.spent += amount
        if self.spent > self.times * self.stored + self.allowance:
            raise self.reached()

    def reached(self) -> FormatError:
        """The error of a budget that is used up."""
        most = f"{self.times} times its {self.stored} bytes plus {self.allowance}"
        fault = f"{self.error.place(self.part, None)}: {self.what} take more than {most}"
        found = self.spent if self.spent > self.most else "more"
        return self.error(self.part, None, f"{self.what} take at most {most}", found, fault=fault)
