"""Operator-level planning by load correlation (borealis-load-distribution)."""
