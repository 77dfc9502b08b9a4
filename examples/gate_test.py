"""A gate in pytest: the profile of a release has names for its frames.

PROFILE=cpu.pb.gz BINARY=./app pytest examples/gate_test.py
"""

import os

import whence
from whence import profiles

LEAST = 60  # percent of the frames in samples


def test_the_profile_has_names() -> None:
    profile = profiles.read(os.environ["PROFILE"])
    with whence.Locator(files=[os.environ["BINARY"]]) as locator:
        report = profile.symbolize(locator)
    assert report.reaches(LEAST), str(report)
