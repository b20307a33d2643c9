"""A model of the sink's protocol, small enough to try every order of its steps under every combination of few faults.

    state         what there is: coordinators, control topic, drivers, attempts, requests under way
    settings      which protocol is tried: its form, transaction.version, faults, planted mistakes
    coordinator   InitProducerId, EndTxn, timeouts, as a transaction coordinator takes them
    driver        the steps of ottla.spark.sink.exactly_once.driver and sweep, up to the tasks; what they end
    commit        those when the tasks are done
    leaving       how a driver leaves a batch
    task          the steps of ottla.spark.sink.exactly_once.task
    faults        how many are left
    spark         who runs them, and what goes wrong
    rules         what must hold in every state
    search        every state that can be reached, and from which of them no good end can be
    trials        the settings that are searched, by tests and by `python -m tests.spark.sink.exactly_once.model`

Two tasks at most, two batches, each with two rows. Every run of a batch may have one task, with both rows, or two
with one each: which rows a task has follows from their number. What the protocol does on one coordinator is one
step; what it does on several is as many.
"""
