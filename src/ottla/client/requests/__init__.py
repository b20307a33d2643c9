"""Requests of any kind: which brokers they go to, how they are taken apart, tried again and merged.

`requests` is what callers use; `routing` finds the brokers, `coordinators` remembers some of them, `attempt` is one
attempt, and `sharding` knows the parts of every request and response.
"""
