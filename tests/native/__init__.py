"""The compiled core against its slow twins, against Kafka's answers, and at its border with Python."""
