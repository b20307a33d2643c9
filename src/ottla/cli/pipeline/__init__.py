"""`ottla pipeline`: pipelines out of files, run and looked after; and what queries that are gone have left.

| file | subject |
| --- | --- |
| run.py | runs a pipeline until it ends or is told to |
| view.py | what there is to see meanwhile: on a terminal, in a pipe, as JSON |
| check.py | whether a file is a pipeline, and which |
| status.py | how far a pipeline is, without Spark |
| recover.py | open transactions of a query that does not come back |
"""

from __future__ import annotations

import typer

from ottla.cli.pipeline.check import check
from ottla.cli.pipeline.recover import recover
from ottla.cli.pipeline.run import run
from ottla.cli.pipeline.status import status

app = typer.Typer(
    help="Run Spark pipelines that are described in a file, and look after them.\n\n"
    "\b\nExamples:\n"
    "  ottla pipeline check revenue.toml\n"
    "  ottla pipeline run revenue.toml\n"
    "  ottla pipeline status revenue.toml\n"
    "  ottla pipeline recover --sink billing --finish",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command()(run)
app.command()(check)
app.command()(status)
app.command()(recover)
