"""Settings for every test: hypothesis keeps no time limit, for a busy machine is no failure, and draws the same
examples in every run, for what was not changed may not fail; `--hypothesis-profile exploring` draws new ones.

An exception inside a batch that is not one of ours is raised, not answered as internal-error.

Ctrl-C reaches commands even where the shell that started the tests ignores it, as it does for what runs in its
background.
"""

import signal

from hypothesis import HealthCheck, settings

from whence.symbolize import internal_error

settings.register_profile("house", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("exploring", settings.get_profile("house"), derandomize=False)
settings.load_profile("house")
internal_error.reraise = True
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
