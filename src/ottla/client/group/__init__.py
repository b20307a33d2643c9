"""Consumer groups: membership by both protocols, and offsets.

consumer            what the user holds: a consumer whose partitions the group assigns
member              what the loops of both protocols share; classic and consumer_protocol are the loops
membership          who the member is, and its state
reactions           what error codes mean
partitions          what happens when partitions come and go; assignment has their cursors, topics what is subscribed
commits             offsets, written and read; offsets has them as messages
callbacks, polling  what the program is told, and when it asks for more
health              what a member is doing, for its program
"""
