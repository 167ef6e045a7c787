"""The state of one query on one worker; it lives in the worker process."""
