"""The controller: it decides about brokers, topics and partitions, and writes the metadata log.

state.py is the state machine: requests and time in, decisions out. brokers, topics, placement, elections, in_sync,
reassignment, configs, features and producer_ids each decide about one subject and change nothing; decision.py says
what they read and return. None of these does any input or output, or knows what time it is. node.py is the server
around them, with the log and the timers, and handlers.py its APIs.
"""
