"""Which queries are slowed, and how much: tenants within their limits, priorities under overload.

Pure functions from what queries used to how many rows each may process in a batch.
"""

from evenflow.planning.tenants.allowances import (
    Allowance,
    Overload,
    QueryNeed,
    allowances,
    water_level,
)

__all__ = ["Allowance", "Overload", "QueryNeed", "allowances", "water_level"]
