"""Runs in Spark's Python processes: the router, the workers and the state they cache."""
