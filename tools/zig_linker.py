"""Link a shared object by ziglang's lld with options that `zig cc` refuses.

    python -m tools.zig_linker TARGET WORD...      (what `zig cc -target TARGET -shared` is given)

`zig cc` links with lld and prints, when asked for it, the words it calls lld with: among them its stand-ins for the
libc of the target. lld is called with these again, and with OPTIONS.
"""

from __future__ import annotations

import subprocess
import sys

# Similar functions are laid out near each other: deflate, which looks back 32 KB, then makes an eighth less of the
# kernels. A build-id, which zig leaves out, tells profilers one build of the kernels from another.
OPTIONS = ("--bp-compression-sort=both", "--build-id=sha1")

ZIG = (sys.executable, "-m", "ziglang")


def main() -> None:
    target, *words = sys.argv[1:]
    linked = subprocess.run([*ZIG, "cc", "-target", target, "-shared", "-v", *words], capture_output=True, text=True)
    # With an empty cache, zig also links its stand-ins for the libc: ours is the call with the right output.
    ours = f" -o {words[words.index('-o') + 1]} "
    called = [line.split() for line in linked.stderr.splitlines() if line.startswith("ld.lld ") and ours in line]
    if linked.returncode or len(called) != 1:
        sys.exit(f"{linked.stderr}`zig cc -v` exited with {linked.returncode} and {len(called)} calls of ld.lld")
    given = [word for word in called[0][1:] if not word.startswith("--build-id")]
    sys.exit(subprocess.run([*ZIG, "ld.lld", *given, *OPTIONS]).returncode)


if __name__ == "__main__":
    main()
