"""What every node of a cluster knows: the records of the metadata log, and the image they replay into.

records.py has the records and their bytes, image.py what they add up to, delta.py what a batch of them changed,
names.py the rules for topic names. Nothing here decides anything: that is the controller.
"""
