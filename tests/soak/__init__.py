"""Nothing grows while clients come and go: `make soak`, and a short form of it in `make test`.

`cycle.py` is what clients do, `serving.py` the cluster they do it to, in a process of its own, so that the memory of
its logs is not the clients'; `growth.py` watches and judges, `run.py` puts them together.
"""
