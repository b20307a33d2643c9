"""Pipelines: topics in, a transform, topics out, as one object or one file.

| module | subject |
| --- | --- |
| model.py | Pipeline, TopicSource, TopicSink, Watermark: what a pipeline is, without Spark |
| checks.py, check_*.py | what a pipeline may be: every mistake that can be known without Spark |
| texts.py | forms of single texts: topics, intervals, triggers |
| mistakes.py | PipelineError: mistakes, each with its key |
| options.py | what a pipeline hands to Spark as options |
| file.py | pipeline.toml to a Pipeline, with the line of each mistake |
| document.py, tables.py | the TOML document: its values by type, its mistakes by place |
| lines.py | on which line of a TOML text each key is |
| transform.py | SQL text, or a Python function from DataFrames to a DataFrame |
| frames.py | sources to DataFrames, a DataFrame to what a sink writes, dead letters |
| session.py | the Spark session of a pipeline |
| running.py | the queries of a pipeline together: started, watched, stopped |
| runs.py | one of them: how it is told to finish, interrupted, cleaned up behind |
| progress.py | what a micro-batch has done, in numbers |
| failures.py | what went wrong, in one paragraph |
| status.py | how far a pipeline is, from its checkpoint and its topics, without Spark |
"""
