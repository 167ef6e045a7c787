"""The `evenflow` command. Heavy imports sit inside the commands, so that --help is quick."""
