"""Connections: brokers, up to five connections to each by purpose, versions, back-off.

`brokers` knows whom there is, `broker` one of them, `connection` sends and matches answers, `api_versions` says which
versions both sides know. `reconnecting` and `throttling` decide when to wait. Nothing here tries a request twice.
"""
