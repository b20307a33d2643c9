"""Client telemetry (KIP-714): the metrics that a cluster subscribes to at its clients.

reporter.py sends the requests, subscription.py has the rules, points.py and otlp.py make what is sent.
"""

from ottla.client.telemetry.reporter import TelemetryReporter

__all__ = ["TelemetryReporter"]
