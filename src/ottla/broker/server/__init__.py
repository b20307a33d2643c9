"""From a connection to a handler and back: what a node and the controller have in common as servers.

server.py has the listener and its connections, dispatch.py the way of a request, registry.py which handler serves an
API, call.py one request on its way, refusals.py the responses that refuse a request, faults.py the faults of tests,
fetch_sessions.py the sessions of Fetch, telemetry.py the metrics that clients push, background.py what a server does
beside its requests. What a request means is decided in handlers/ and controller/handlers.py.
"""
