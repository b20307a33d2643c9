"""The blocking client: `Client`, its consumer and admin, and the driver of their loop in the caller's thread."""
