"""The log of one partition: segments on a volume, and what a leader knows of the producers that write to them."""
