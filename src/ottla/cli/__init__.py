"""The `ottla` command: a cluster to try things on, and records and topics from a shell.

| file | subject |
| --- | --- |
| main.py | where the command begins: says how to get the extra when it is not installed |
| app.py | the commands put together, `broker` among them, and what all of them do about an error |
| produce.py, consume.py, topic.py | one command each |
| options.py | the options they share, and the client made from them |
| record_formats.py | lines, JSON and whole files to records; records to lines, JSON and templates |
| output.py | tables for people, columns and JSON for programs; an error as one line |

Invariants: what a program reads goes to standard output, what is for a person goes to standard error. Only typer is
imported before a command runs, so that `--help` and completion are quick.
"""
