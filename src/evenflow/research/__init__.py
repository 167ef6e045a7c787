"""Workload generators and simulators."""
