"""Runs in the Spark driver: commands, the commit of each batch, balancing, sinks, clean-up."""
