"""Small programs compiled for tests, once a session."""

from __future__ import annotations

import atexit
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

SOURCE = r"""
#include <stdio.h>
static inline __attribute__((always_inline)) int square(int x) { return x * x; }
static inline __attribute__((always_inline)) int twice(int x) {
    return square(x) + square(x + 1);
}
__attribute__((noinline)) int sum(int n) {
    int total = 0;
    for (int i = 0; i < n; i++)
        total += twice(i);
    return total;
}
int main(int argc, char **argv) {
    printf("%d\n", sum(argc + 4));
    return 0;
}
"""

# part of a program: until so many of its threads wait in the kernel
UNTIL_ASLEEP = r"""
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static void until_asleep(int wanted) {
    for (int found = 0; found < wanted; usleep(1000)) {
        DIR *tasks = opendir("/proc/self/task");
        found = 0;
        for (struct dirent *one; (one = readdir(tasks));) {
            char path[300], text[300] = "";
            snprintf(path, sizeof path, "/proc/self/task/%s/stat", one->d_name);
            FILE *file = fopen(path, "r");
            if (!file) continue;
            if (!fgets(text, sizeof text, file)) text[0] = 0;
            fclose(file);
            char *name_end = strrchr(text, ')');
            found += name_end && name_end[2] == 'S';
        }
        closedir(tasks);
    }
}
"""


@functools.cache
def folder() -> Path:
    made = Path(tempfile.mkdtemp(prefix="whence-programs-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


@functools.cache
def compiled(*flags: str) -> Path:
    """The program above, built by gcc with these flags; p_vaddr differs from p_offset, and it is not loaded at 0."""
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("gcc is not on this machine")
    source = folder() / "program.c"
    source.write_text(SOURCE)
    out = folder() / ("program" + "".join(flags).replace("-", "_").replace("=", "_").replace(",", "_"))
    subprocess.run([gcc, "-O2", "-g", *flags, str(source), "-o", str(out)], check=True)
    return out
