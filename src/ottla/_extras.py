"""Optional dependencies: imported when they are first used, and named in the error when they are missing.

The base install of Ottla needs no other package. Whatever does is imported through `require`, inside the
function that needs it, never at the top of a module: `import ottla` stays quick and cannot fail for the want
of something that the program never uses. The modules of a whole extra, such as cli's, may import what it brings at
their top if they are reached through such a function only.

Invariant: the names in EXTRAS are those under [project.optional-dependencies] in pyproject.toml.
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType, ModuleType

from ottla.errors import MissingExtraError

EXTRAS = MappingProxyType(
    {
        "columns": "records as Arrow columns, in and out",
        "spark": "the Spark connector",
        "registry": "Avro, Protobuf and JSON Schema with a schema registry",
        "cli": "the `ottla` command",
        "console": "the web console",
        "telemetry": "metrics for Prometheus and traces for OpenTelemetry",
        "uvloop": "a faster event loop for the embedded cluster",
    }
)


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import an optional module, or say what it is needed for and how to get it.

    `purpose` is the beginning of the sentence that the user reads:

    >>> require("nonesuch", extra="columns", purpose="reading into Arrow columns")
    Traceback (most recent call last):
    ...
    ottla.errors.MissingExtraError: reading into Arrow columns needs nonesuch: pip install 'ottla[columns]'
    """
    if extra not in EXTRAS:
        raise ValueError(f"there is no extra {extra!r}, only {', '.join(EXTRAS)}")
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if not _is_or_contains(error.name, module):
            # The module is there; something that it needs itself is not. Our advice would not help.
            raise
        message = f"{purpose} needs {module}: pip install 'ottla[{extra}]'"
        raise MissingExtraError(message, name=module) from None


def _is_or_contains(package: str | None, module: str) -> bool:
    return package is not None and f"{module}.".startswith(f"{package}.")
