"""`python -m whence`: the command line."""

import sys

from whence.cli.main import main

sys.exit(main())
