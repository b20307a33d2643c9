"""kafka.sasl.jaas.config: a user and a password in the syntax of Java's login modules.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";

The class may have any package, as some distributions move Kafka's into one of their own.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ottla.spark.option_values import OptionError

_ENTRY: Final = re.compile(
    r"""
    \s* (?P<module>[\w.$]+)
    \s+ (?:required|requisite|sufficient|optional)
    (?P<options> (?: \s+ [\w.]+ \s*=\s* (?: "(?:[^"\\]|\\.)*" | [^\s";]+ ) )* )
    \s* ;? \s*
    """,
    re.VERBOSE | re.IGNORECASE,
)
_OPTION: Final = re.compile(r"""([\w.]+) \s*=\s* (?: "((?:[^"\\]|\\.)*)" | ([^\s";]+) )""", re.VERBOSE)
_MODULES: Final = ("PlainLoginModule", "ScramLoginModule")


class Credentials(NamedTuple):
    username: str
    password: str


def credentials(jaas: str) -> Credentials:
    """Who the text says that the client is. Errors never quote it: there is a password in it."""
    entry = _ENTRY.fullmatch(jaas)
    if entry is None:
        raise OptionError(
            "option 'kafka.sasl.jaas.config' cannot be read: it takes one entry, as in "
            'org.apache.kafka.common.security.plain.PlainLoginModule required username="..." password="...";'
        )
    if entry["module"].rpartition(".")[2] not in _MODULES:
        raise OptionError(
            f"option 'kafka.sasl.jaas.config' has the login module {entry['module']}, which only a JVM has: "
            f"supported are {' and '.join(_MODULES)}, of any package"
        )
    options = {
        name: re.sub(r"\\(.)", r"\1", quoted) or bare
        for name, quoted, bare in _OPTION.findall(entry["options"])
    }
    missing = [name for name in Credentials._fields if name not in options]
    if missing:
        raise OptionError(f"option 'kafka.sasl.jaas.config' lacks {' and '.join(missing)}")
    return Credentials(options["username"], options["password"])
