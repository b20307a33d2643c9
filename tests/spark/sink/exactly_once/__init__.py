"""The protocol of the exactly-once sink on the embedded cluster, in simulation: no Spark, no JVM."""
