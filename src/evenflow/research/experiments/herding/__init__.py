"""Experiments of "Herding small streaming queries" (MSR-TR-2015-26)."""
