"""`python -m ottla`: the `ottla` command, also where its script is not on the path."""

import sys

from ottla.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
