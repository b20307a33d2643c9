"""The client: what produces, consumes and administers.

client, core        AsyncClient, and the services that it passes calls on to
blocking/           Client, its twin, and the driver: the calling thread runs its loop
connections/        brokers and the connections to them
metadata/           who leads what
partitioners/       which partition a record goes to
produce/            from `produce()` to the receipt
consume/            from a fetch to the record in the user's hands
requests/           any request, to the brokers that it is for; admin/ is built on it
metrics/            what happened; telemetry/ sends it to brokers, observers/ to Prometheus and OpenTelemetry
"""
