"""Two queries of Spark in a row, exactly once, for an hour in which something fails every 20 seconds.

`make soak-spark`; a minute of it is in `make crash-matrix`. A feeder writes numbers to a topic; one query copies
them to a second, another from there to a third. `stage.py` is the program of a query, `stages.py` keeps it running,
`faults.py` is what goes wrong, `watch.py` what is looked at meanwhile, and `run.py` puts them together. In the end
both copies have every number once, as confluent-kafka reads them.
"""
