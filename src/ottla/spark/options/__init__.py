"""What users write as options of `format("ottla")`, parsed and checked on the driver.

| file | subject |
| --- | --- |
| connector.py | SourceOptions and SinkOptions: all options of a query, as values |
| topics.py | what to read: `subscribe`, `subscribePattern`, `assign` |
| java_regex.py | Java's regular expressions as Python's |
| offsets.py | where to begin and to end: `startingOffsets`, `endingOffsets`, and by time |
| client.py | the options that begin with `kafka.`, as a ClientConfig |
| parsing.py | names, forms of single values, and OptionError |

`value.*` is in `ottla.spark.values`. Nothing here needs pyspark or a broker.
"""
