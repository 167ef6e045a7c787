"""Hook of mkdocs: the site has the pages of docs/README.md, in its order, under its headings."""

import re
from pathlib import Path
from typing import Any

ITEM = re.compile(r"^## (?P<head>[^:\n]+)|\[(?P<title>[^\]]+)\]\((?P<page>[^)#:]+\.md)\)", re.M)


def on_config(config: Any) -> Any:
    """Set the navigation before the site is built."""
    config.nav = navigation((Path(config.docs_dir) / "README.md").read_text(encoding="utf-8"))
    return config


def navigation(text: str) -> list[dict[str, Any]]:
    """Return the navigation that an index page describes.

    >>> navigation("# Docs\\nsee [b](b.md)\\n## Guide: do it\\n| [first](g/a.md) | [1](b.md) |")
    [{'Home': 'README.md'}, {'Guide': [{'First': 'g/a.md'}, 'b.md']}]
    """
    sections: list[dict[str, Any]] = [{"Home": "README.md"}]
    pages: list[dict[str, str] | str] = []
    for found in ITEM.finditer(text[text.index("\n## ") :]):
        if found["head"]:
            pages = []
            sections.append({found["head"].strip(): pages})
        else:
            title, page = found["title"], found["page"]
            # A number is no title: the page has a heading.
            pages.append(page if title.isdigit() else {title[0].upper() + title[1:]: page})
    return sections
