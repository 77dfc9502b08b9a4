"""The processes that `bounded` starts.

`child.py limit SECONDS BYTES USAGE COMMAND...` runs a command under RLIMITs and writes its exit code (negative: a
signal), processor seconds and peak of resident KiB to USAGE. `child.py call CALL ANSWER` calls a pickled function.
"""

import os
import resource
import sys

WRITTEN = 4 << 30  # bytes of output, at most


def limit(seconds: str, size: str, usage: str, *command: str) -> None:
    """Runs the command and writes down what it took."""
    if (pid := os.fork()) == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 1))
        resource.setrlimit(resource.RLIMIT_DATA, (int(size), int(size)))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (WRITTEN, WRITTEN))
        os.execvp(command[0], command)
    _, status, used = os.wait4(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    with open(usage, "w", encoding="ascii") as file:
        file.write(f"{code} {used.ru_utime + used.ru_stime} {used.ru_maxrss}")


def call(path: str, answer: str) -> None:
    """Calls the function and writes (answer, "") or (None, the error's text)."""
    import pickle

    with open(path, "rb") as file:
        function, arguments = pickle.load(file)
    outcome: tuple[object, str]
    try:
        outcome = function(*arguments), ""
    except Exception as error:
        outcome = None, f"{type(error).__name__}: {error}"
    with open(answer, "wb") as file:
        pickle.dump(outcome, file)


if __name__ == "__main__":
    (limit if sys.argv[1] == "limit" else call)(*sys.argv[2:])
