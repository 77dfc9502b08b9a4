"""`python -m whence`: the command line."""

from whence.cli.main import leave, main

leave(main())  # not sys.exit: threads may still import, which an interpreter that is taken apart does not survive
