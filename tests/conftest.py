"""Settings for every test.

Hypothesis has no time limit, so that tests pass on a busy machine, and draws the same examples in every run, so that
unchanged code does not fail; `--hypothesis-profile exploring` draws new examples.

An unexpected exception inside a batch is raised, not answered as internal-error.

Ctrl-C reaches commands even if the tests run in the background of a shell, which ignores SIGINT for its children.
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
