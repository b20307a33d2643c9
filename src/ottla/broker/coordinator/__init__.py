"""What coordinators need: internal topics, which of their partitions a key is in, producer ids."""
