"""Files of a checkpoint: atomic writes, records with checksums, bundles of Arrow tables, history."""
