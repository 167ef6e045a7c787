"""How values show themselves in a notebook: a title, and named facts below it."""

from collections.abc import Mapping
from html import escape


def facts_html(title: str, facts: Mapping[str, object]) -> str:
    """Return a small table; everything is text, nothing becomes markup.

    >>> facts_html("<b>", {"workers": 2})
    '<table><caption>&lt;b&gt;</caption><tr><th>workers</th><td>2</td></tr></table>'
    """
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>"
        for name, value in facts.items()
    )
    return f"<table><caption>{escape(title)}</caption>{rows}</table>"


def facts_line(title: str, facts: Mapping[str, object]) -> str:
    """Return the same in one line.

    >>> facts_line("Plan", {"workers": 2, "drained": "none"})
    '<Plan: workers 2, drained none>'
    """
    return f"<{title}: {', '.join(f'{name} {value}' for name, value in facts.items())}>"
