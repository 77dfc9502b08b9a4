"""Readable names as each program that a drop-in replaces prints them."""

from __future__ import annotations

import pytest

from whence.dropin.spelling import spelling

NESTED = "_RINvNtC3std3mem8align_ofINtC3std3VecINtC3std3VechEEE"  # std::mem::align_of::<std::Vec<std::Vec<u8>>>
TYPE = "_$LT$a..Vec$LT$a..Vec$LT$T$GT$$GT$$u20$as$u20$a..From$LT$a..B$LT$T$GT$$GT$$GT$"
LEGACY = f"_ZN{len(TYPE)}{TYPE}4from17h0123456789abcdefE"


@pytest.mark.parametrize("version", [14, 19, 22, "GNU"])
def test_argument_lists_of_rust_v0_have_no_blanks(version: int | str) -> None:
    assert spelling(version)(NESTED) == "std::mem::align_of::<std::Vec<std::Vec<u8>>>"


@pytest.mark.parametrize(("version", "closing"), [(14, "> >"), (19, ">>"), ("GNU", "> >")])
def test_argument_lists_of_cpp_have_blanks_before_llvm_15_and_in_binutils(version: int | str, closing: str) -> None:
    assert spelling(version)("_Z1fSt6vectorIS_IiEE") == f"f(std::vector<std::vector<int{closing})"


@pytest.mark.parametrize("suffix", ["", ".cold", ".llvm.3944405696892373252"])
def test_binutils_drop_the_suffix_of_a_rust_name(suffix: str) -> None:
    gnu = spelling("GNU")
    assert gnu(NESTED + suffix) == "std::mem::align_of::<std::Vec<std::Vec<u8>>>"
    assert gnu(LEGACY + suffix) == "<a::Vec<a::Vec<T>> as a::From<a::B<T>>>::from"
    assert gnu("_ZN1a1fEv" + suffix) == "a::f()" + (f" [clone {suffix}]" if suffix else "")


def test_llvm_keeps_the_suffix_of_a_rust_name() -> None:
    assert spelling(14)(NESTED + ".cold") == "std::mem::align_of::<std::Vec<std::Vec<u8>>> (.cold)"
