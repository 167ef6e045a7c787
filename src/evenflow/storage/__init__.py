"""Files of a checkpoint: atomic writes, checksummed records, bundles of Arrow tables, history."""
