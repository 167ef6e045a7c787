"""From SQL text to a query plan: parse, resolve names, infer types and keys, check bounds on state.

Runs on the driver to check a submission, and in a worker process to open a task.
"""
