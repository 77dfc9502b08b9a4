"""pytest: runs of a folder of tests with fixtures, parameters, failures and captured output, one after the other."""

import contextlib
import io
import tempfile
from pathlib import Path

import common
import pytest

TESTS = """
import pytest, re, warnings

@pytest.fixture(scope="module")
def table():
    yield {n: str(n) for n in range(1000)}

@pytest.fixture(params=["a", "b"])
def letter(request, table, tmp_path):
    (tmp_path / "file").write_text(request.param)
    yield request.param

@pytest.mark.parametrize("n", range(30))
def test_numbers(n, table, letter):
    print(n, letter)
    assert table[n] == str(n)

def test_failure(table):
    assert [table[n] for n in range(9)] == list("01234567x")

def test_pattern(monkeypatch):
    monkeypatch.setattr(re, "escape", lambda text: text)
    with pytest.raises(ValueError, match="of"):
        raise ValueError("out of range")
    with pytest.warns(UserWarning):
        warnings.warn("a warning")

class TestClass:
    @pytest.mark.xfail
    def test_expected(self, capsys):
        print(sorted(range(100), key=lambda n: -n))
        assert "x" in capsys.readouterr().out
"""


def main():
    with tempfile.TemporaryDirectory() as folder:
        for number in range(3):
            Path(folder, f"test_{number}.py").write_text(TESTS)
        common.ready()
        while True:
            with contextlib.redirect_stdout(io.StringIO()):
                pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:faulthandler", folder])


main()
