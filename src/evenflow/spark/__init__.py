"""The runtime on Spark. `driver`, `worker` and `protocol` show which process runs a file."""
