"""The Python processes that a job runs in, and what each of them needs.

| file | subject |
| --- | --- |
| registration.py, replace.py | in the program: `register`, `replace_kafka`, `restore_kafka` |
| shipping.py | from process to process: how readers, writers and the source are pickled |
| clients.py | in each process: one client per configuration, kept for the next task |
"""
