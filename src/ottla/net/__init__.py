"""The network layer: frames in, frames out, on whatever transport the Runtime provides.

`Connection` (connection.py) is the one connection type of clients and brokers. `Channel` (channel.py) sends
requests over one and matches the responses. memory.py has transports without sockets. What a frame says is not known
here.
"""

from ottla.net.channel import Channel, Decode, Observer, OnDone, PendingRequest
from ottla.net.connection import Connection, Receiver

__all__ = ["Channel", "Connection", "Decode", "Observer", "OnDone", "PendingRequest", "Receiver"]
