"""Experiments of the papers, with workload generators and simulators. Not used by the product."""
