"""Settings for every test: hypothesis keeps no time limit, for a busy machine is no failure.

Ctrl-C reaches commands even where the shell that started the tests ignores it, as it does for what runs in its
background.
"""

import signal

from hypothesis import settings

settings.register_profile("house", deadline=None)
settings.load_profile("house")
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
