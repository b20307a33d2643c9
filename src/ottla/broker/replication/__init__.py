"""The replicas of a node: what each may serve as leader or follower, and who waits for them."""
