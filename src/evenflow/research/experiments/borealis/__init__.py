"""Experiments of "Dynamic Load Distribution in the Borealis Stream Processor" (ICDE 2005)."""
