"""`python -m whence`: the command line."""

import sys

try:
    from whence.cli.main import main

    sys.exit(main())
except KeyboardInterrupt:  # before main handles it
    sys.exit(130)
