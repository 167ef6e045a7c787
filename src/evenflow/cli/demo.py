"""`evenflow demo`."""


def demo() -> None:
    """Plan a bundled sample of skewed keys and print the result."""
