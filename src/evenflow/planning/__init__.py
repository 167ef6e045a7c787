"""Pure planners: plan(snapshot, config, rng) -> plan. No Spark, clock, log or files."""
