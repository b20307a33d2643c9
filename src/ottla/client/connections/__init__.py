"""Connections: brokers, up to five connections to each by purpose, versions, back-off.

`brokers` has all brokers that are known, `broker` the connections to one of them and its back-off, `connection` sends
requests and keeps their deadlines and the broker's throttling, `api_versions` says which versions both sides know,
`purposes` which connection a request goes over. Nothing here tries a request twice.
"""
