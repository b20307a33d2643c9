"""Which broker answers what: requests taken apart by who has to answer them, and answers put together again.

    routes.py   for each API: where it goes, what its items are, which errors are worth another try
    items.py    the items of a request (topics, partitions, groups), how to ask for some of them, how to merge answers
    older.py    the same request at versions that say it with other fields

Nothing here awaits or knows a connection: client/requests/requests.py does the asking.
"""

from ottla.client.requests.sharding.items import Items, Key
from ottla.client.requests.sharding.older import (
    at_version,
    check_version,
    from_version,
    in_newest_shape,
    most_version,
)
from ottla.client.requests.sharding.routes import Destination, Route, route_of

__all__ = [
    "Destination",
    "Items",
    "Key",
    "Route",
    "at_version",
    "check_version",
    "from_version",
    "in_newest_shape",
    "most_version",
    "route_of",
]
