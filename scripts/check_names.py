"""Check names and sizes: `python scripts/check_names.py`. `make check` runs it.

- no public class name is defined twice in src, but for `TWINS`
- no module name ends in -ing or -ed, but for `TERMS` of the field
- no file of src has more than 350 lines
- no line of the docs is longer than 100 characters, but for tables, links and generated pages
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAX_LINES = 350
MAX_WIDTH = 100
MAX_CELL = 120
# name: why two classes may share it; at most five
TWINS: dict[str, str] = {}
# Written by scripts/generate_reference.py and by `evenflow reproduce`.
GENERATED = {"spec.md", "command-line.md", "python.md", "report.md"}
TERMS = {"routing", "hashing", "clustering", "annealing", "mixed", "column_pruning"}


def twin_classes(files: list[Path]) -> list[str]:
    """Return the public classes that are defined in more than one place."""
    places: dict[str, list[str]] = defaultdict(list)
    for file in files:
        for name in re.findall(r"^class ([A-Z]\w*)", file.read_text(), re.M):
            places[name].append(str(file.relative_to(ROOT)))
    return [
        f"class {name} is defined {len(where)} times: {', '.join(where)}; rename one"
        for name, where in sorted(places.items())
        if len(where) > 1 and name not in TWINS
    ]


def odd_modules(files: list[Path]) -> list[str]:
    """Return the modules that are named by a gerund or a participle."""
    return [
        f"{file.relative_to(ROOT)}: name a module after a noun or a verb, not in -ing or -ed"
        for file in files
        if re.search(r"(ing|ed)$", file.stem) and file.stem not in TERMS
    ]


def long_files(files: list[Path]) -> list[str]:
    """Return the files with too many lines."""
    sizes = {file: len(file.read_text().splitlines()) for file in files}
    return [
        f"{file.relative_to(ROOT)} has {lines} lines, more than {MAX_LINES}; split it"
        for file, lines in sizes.items()
        if lines > MAX_LINES
    ]


def wide_lines(pages: list[Path]) -> list[str]:
    """Return the lines of the docs that are too long to read."""
    problems = []
    for page in pages:
        for number, line in enumerate(page.read_text().splitlines(), 1):
            if line.startswith("|"):
                wide = any(len(cell.strip()) > MAX_CELL for cell in line.split("|"))
            else:
                wide = len(line) > MAX_WIDTH and "](" not in line and " " in line.strip()
            if wide:
                problems.append(f"{page.relative_to(ROOT)}:{number} is too wide")
    return problems


def main() -> int:
    """Print what is wrong; return the exit code."""
    files = sorted((ROOT / "src").rglob("*.py"))
    pages = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
    pages = [page for page in pages if page.name not in GENERATED]
    problems = [
        *twin_classes(files),
        *odd_modules(files),
        *long_files(files),
        *wide_lines(pages),
    ]
    print("\n".join(problems) or "names, sizes and widths are fine")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
