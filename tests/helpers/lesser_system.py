"""Takes from this Python what macOS and Windows lack, then uses what has to work there.

python lesser_system.py ELF PROFILE TRACE FOLDER
"""

import asyncio  # noqa: F401  Python's own is made for the system that it runs on
import importlib
import mmap
import os
import pkgutil
import signal
import sys

MODULES = (
    "fcntl",
    "resource",
    "termios",
    "tty",
    "pty",
    "pwd",
    "grp",
    "syslog",
    "whence.kernels.mapped",
    "whence.unwind.kernels.ptrace",
)
FLAGS = ("O_NOFOLLOW", "O_CLOEXEC", "O_DIRECTORY", "O_NONBLOCK", "O_PATH", "O_NOCTTY", "O_NOATIME", "O_TMPFILE")
FUNCTIONS = (
    "register_at_fork",
    "pread",
    "preadv",
    "pwrite",
    "fork",
    "geteuid",
    "getuid",
    "getegid",
    "getgid",
    "getpgid",
    "fchmod",
    "fchown",
    "chown",
    "lchown",
    "mkfifo",
    "sched_getaffinity",
    "sched_yield",
    "pidfd_open",
    "memfd_create",
    "posix_fadvise",
    "posix_fallocate",
    "sysconf",
    "statvfs",
    "fstatvfs",
    "listxattr",
    "getxattr",
    "setxattr",
    "SEEK_DATA",
    "SEEK_HOLE",
    "wait4",
    "waitid",
    "getloadavg",
)
SIGNALS = (
    "SIGKILL",
    "SIGBUS",
    "SIGSTOP",
    "SIGHUP",
    "SIGUSR1",
    "SIGALRM",
    "setitimer",
    "pthread_kill",
    "pthread_sigmask",
)
# What stops and samples live processes.
LINUX_ALONE = (
    "whence.cli.demo",
    "whence.profiles.sampling",
    "whence.symbolize.live_stacks",
    "whence.unwind.live",
    "whence.unwind.stopping",
)


def hide() -> None:
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    for module, names in ((os, (*FLAGS, *FUNCTIONS)), (signal, SIGNALS)):
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    for name in dir(mmap):
        if name.startswith(("MAP_", "PROT_", "MADV_")):
            delattr(mmap, name)
    os.supports_dir_fd.clear()
    os.supports_fd.clear()
    os.supports_effective_ids.clear()


def everything() -> list[str]:
    """What can't be imported, and why; the engines of others and the package mcp are theirs."""
    import whence

    wrong = []
    for result in pkgutil.walk_packages(whence.__path__, "whence."):
        name = result.name
        if (
            name.startswith(("whence.engines.", "whence.cli.mcp_transport", *LINUX_ALONE))
            or name.endswith("__main__")
            or name in MODULES
        ):
            continue
        try:
            importlib.import_module(name)
        except Exception as error:
            wrong.append(f"{name}: {type(error).__name__}: {error}")
    return wrong


def use(elf: str, profile: str, trace: str, folder: str) -> None:
    import whence
    from whence import gotrace, lidia, profiles
    from whence.cli.main import main
    from whence.locate.cache import Cache

    with whence.open(elf) as binary:
        function = binary.find("main")[0]
        assert binary.lookup(function.vaddr)[-1].function == "main"
    archive = os.path.join(folder, "a.lidia")
    lidia.create(elf, archive)
    with lidia.open(archive) as table:
        assert table.lookup(function.vaddr)[-1].function == "main"
    cache = os.path.join(folder, "cache")
    with whence.Locator(files=[elf], cache=Cache(cache)) as locator:
        read = profiles.read(profile)
        assert "100.0 %" in str(read.symbolize(locator))
    read.write(os.path.join(folder, "named.pb.gz"))
    assert sum(len(block) for block in gotrace.ColumnReader(trace)) > 0
    with whence.Store(os.path.join(folder, "store")) as store:
        assert store.add(elf)[0].outcome == "added"
        assert len(store.list()) == 1
    assert main(["addr", elf, hex(function.vaddr)]) == 0


def refuses_processes() -> None:
    import whence

    sys.platform = "win32"
    try:
        whence.Process(1)
    except whence.WhenceError as error:
        print(error)
    else:
        raise AssertionError("a live process on a system without /proc")


if __name__ == "__main__":
    hide()
    failed = everything()
    if failed:
        sys.exit("\n".join(failed))
    use(*sys.argv[1:])
    refuses_processes()
