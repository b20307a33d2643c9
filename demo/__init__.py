"""The whole pipeline on one machine: `make demo`, or `python -m demo`.

Orders flow into a Kafka, Spark enriches and sums them, the sums flow back into Kafka, a view shows it live, and
another project's client checks the result. Each part is a process of its own:

    producer.py   orders -> topic `orders`                             ottla.Client
    broker        python -m ottla.broker, the embedded cluster
    job.py        `orders` -> join, sum per country and window -> `revenue`     PySpark, format("ottla")
    view.py       shows what is in both topics                         ottla.Client, in the demo's own process
    check.py      adds everything up again and compares                confluent-kafka
"""
