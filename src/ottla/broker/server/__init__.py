"""From a connection to a handler and back: the listener, dispatch, the registry of APIs, faults on demand."""
