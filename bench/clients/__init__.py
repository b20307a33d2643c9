"""The clients that are measured: each in a process of its own, doing the same work by its own means.

`python -m bench.clients NAME --bootstrap ADDRESS` reads jobs from standard input, one JSON object per line, and
reports what each took. CPU is that of the whole process, the client's own threads included.
"""
