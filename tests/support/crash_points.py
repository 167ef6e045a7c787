"""Every fault point that a crash test kills at."""

POINTS = (
    "worker.before_write",
    "worker.after_write",
    "driver.collected",
    "driver.plan",
    "driver.results",
    "driver.pulse",
    "driver.ledger",
)
