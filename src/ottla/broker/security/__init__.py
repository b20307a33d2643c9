"""Who sends a request, and what they may do: principals, and later ACLs, quotas and users.

principal.py is all there is while every client is anonymous. A call carries its principal (server/call.py), also
through the envelope of a forwarded request, so an authorizer finds it there on brokers and on the controller. The
exchanges of SASL serve both sides of a connection and belong into ottla.net.
"""
