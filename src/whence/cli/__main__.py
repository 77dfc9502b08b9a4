import sys

from whence.cli.main import main

sys.exit(main())
