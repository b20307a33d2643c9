"""The cluster and its nodes: what starts together, what a test does to it, and what a node is made of."""
