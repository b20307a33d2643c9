"""Who sends a request, and what they may do: principals and operations, later ACLs, quotas and users.

principal.py says who a client is, which is anonymous for now, and acl.py which operations there are. A call carries
its principal (server/call.py), also through the envelope of a forwarded request, so an authorizer finds it there on
brokers and on the controller. The exchanges of SASL serve both sides of a connection and belong into ottla.net.
"""
