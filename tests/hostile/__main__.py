"""Runs every hostile input and prints what each took: input, stored bytes, seconds, megabytes, bound."""

import sys
from pathlib import Path

import pytest

from tests.hostile.bounds import ROWS

WIDTH = 100

code = pytest.main(["-q", "-p", "no:cacheprovider", str(Path(__file__).parent), *sys.argv[1:]])
print(f"{'input':{WIDTH}}{'bytes':>12}{'seconds':>9}{'MB':>7}  bound")
for row in ROWS:
    name = row.name.removeprefix("test_").replace("_", " ")
    bound = f"{row.bound[0]:g} s, {row.bound[1]:g} MB"
    print(f"{name:{WIDTH}}{row.stored:12,}{row.seconds:9.2f}{row.megabytes:7.0f}  {bound}")
sys.exit(code)
