"""`python -m guard` is the command `stepguard`."""

import sys

from guard.cli import main

if __name__ == "__main__":
    sys.exit(main())
