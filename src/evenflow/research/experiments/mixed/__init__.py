"""Experiments of "Parallel stream processing against workload skewness" (HPDC 2017)."""
