"""`python -m eval run …`: the harness without the rest of the command line."""

import sys

from eval.cli import main

if __name__ == "__main__":
    sys.exit(main())
