"""The `ottla` command: a cluster to try things on, and records and topics from a shell.

| file | subject |
| --- | --- |
| main.py | where the command begins: says how to get the extra when it is not installed |
| app.py | the commands put together, and what all of them do about an error |
| broker.py, produce.py, consume.py, topic.py | one command each |
| options.py | the options they share, and the client made from them |
| failures.py | an error as one line, with the closest name for what was not found |
| incoming.py | lines, JSON and whole files to records |
| outgoing.py | records to lines, JSON and templates |
| places.py | `--from` and `--until`: offsets and times |
| tables.py | tables for people, columns and JSON for programs |

Invariants: what a program reads goes to standard output, what a person is told goes to standard error. Only typer is
imported before a command runs, so that `--help` and completion are quick.
"""
