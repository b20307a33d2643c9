"""The client: what produces, consumes and administers.

client, blocking    AsyncClient and Client, the two faces; parts puts the rest together
driver              whose thread runs the blocking client's loop
connections/        brokers and the connections to them
metadata/           who leads what
partitioners/       which partition a record goes to
produce/            from `produce()` to the receipt
consume/            from a fetch to the record in the user's hands
requests/           any request, to whoever has to answer it; admin/ is built on it
metrics/            what happened; telemetry/ sends it to brokers, observers/ to Prometheus and OpenTelemetry
"""
