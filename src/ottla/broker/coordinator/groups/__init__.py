"""Groups: their records in the offsets topic, their members, and the offsets that they have committed."""
