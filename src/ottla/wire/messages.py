"""Every message of the Kafka protocol, by name: `from ottla.wire.messages import FetchRequest`.

The classes are made when they are first used. Editors and mypy read messages.pyi, which `make stubs`
writes from the schema and a test keeps fresh.
"""

from typing import Any

from ottla.wire.message import message_class
from ottla.wire.schema import message_names


def __getattr__(name: str) -> Any:
    try:
        made = message_class(name)
    except KeyError:
        raise AttributeError(f"the Kafka protocol has no message {name!r}") from None
    globals()[name] = made
    return made


def __dir__() -> list[str]:
    return list(message_names())
