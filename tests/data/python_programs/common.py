"""What each program imports: faulthandler for the comparison, and a line that says that the program is ready."""

import faulthandler
import signal
import sys

if sys.argv[1:]:
    dumps = open(sys.argv[1], "a")  # stays open; child processes append to it, too
    faulthandler.register(signal.SIGUSR1, dumps, all_threads=False)


def ready():
    print("ready", flush=True)
