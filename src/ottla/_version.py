"""The version of this package, for those below the root: `ottla.__version__` is the same."""

__version__ = "0.1.0.dev0"
