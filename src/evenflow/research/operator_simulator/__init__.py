"""Tuple-level simulator of operator networks (borealis-load-distribution, section 5)."""
