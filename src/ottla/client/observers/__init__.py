"""Where a client's metrics and traces can go: Prometheus and OpenTelemetry, with the extra `telemetry`.

    pip install 'ottla[telemetry]'

Nothing here is imported by the client: a program imports prometheus.py or opentelemetry.py itself.
"""
