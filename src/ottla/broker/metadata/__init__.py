"""What every node of a cluster knows: the records of the metadata log, and the image they replay into.

records.py has the records and their bytes, image.py what they add up to and what a run of them changed, describe.py
what clients see of it, names.py the rules for topic names, features.py what this release can run at, and
controller_channel.py a node's connections to the controller. Nothing here decides anything: that is the controller.
"""
