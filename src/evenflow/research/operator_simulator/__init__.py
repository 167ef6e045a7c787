"""A tuple-level simulator of operator networks on a cluster (borealis-load-distribution, 5)."""
