"""Settings for every test: hypothesis keeps no time limit, for a busy machine is no failure.

An exception inside a batch that is not one of ours is raised, not answered as internal-error.

Ctrl-C reaches commands even where the shell that started the tests ignores it, as it does for what runs in its
background.
"""

import signal

from hypothesis import settings

from whence.symbolize import internal_error

settings.register_profile("house", deadline=None)
settings.load_profile("house")
internal_error.reraise = True
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
