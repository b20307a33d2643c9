"""Which broker gets what: requests taken apart by the brokers they go to, and responses put together again.

    routes.py     for each API: where it goes, what its items are, which errors are worth another try
    items.py      the items of a request (topics, partitions, groups), requests for some of them, merged responses
    versions.py   the same request at versions that say it with other fields

Nothing here awaits or knows a connection: client/requests/requests.py does the sending.
"""

from ottla.client.requests.sharding.items import ItemKey, Items
from ottla.client.requests.sharding.routes import Destination, Route, route_of
from ottla.client.requests.sharding.versions import (
    at_version,
    check_version,
    from_version,
    in_newest_shape,
    max_version,
)

__all__ = [
    "Destination",
    "ItemKey",
    "Items",
    "Route",
    "at_version",
    "check_version",
    "from_version",
    "in_newest_shape",
    "max_version",
    "route_of",
]
