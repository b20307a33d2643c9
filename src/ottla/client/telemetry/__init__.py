"""Client telemetry (KIP-714): the metrics that a cluster asks its clients for.

loop.py talks to a broker, subscription.py has the rules, points.py and otlp.py make what is sent.
"""

from ottla.client.telemetry.reporter import Telemetry

__all__ = ["Telemetry"]
