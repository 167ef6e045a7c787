"""The `evenflow` command. Commands import heavy packages lazily, to keep --help fast."""
