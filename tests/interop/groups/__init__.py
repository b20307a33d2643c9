"""Groups as their coordinator sees them: every rule is a test of single requests, on both brokers.

link.py is a connection with typed answers, classic.py and consumer.py are a member of either protocol, which does
only what a test has it do, group.py is the group around them.
"""
