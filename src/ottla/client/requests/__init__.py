"""Requests of any kind: who has to answer them, how they are taken apart, tried again and merged.

`requests` is what callers use; `routing` finds who answers, `coordinators` remembers some of them, `asking` is one
attempt, and `sharding` knows the parts of every request and answer.
"""
