"""Checks README and docs: `python` fences run (fences marked `py` are fragments), links resolve."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SNIPPETS = [
    pytest.param(code, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]


@pytest.mark.parametrize("code", SNIPPETS)
def test_snippet_runs(code: str) -> None:
    exec(compile(code, "snippet", "exec"), {})  # noqa: S102 - our own docs


def test_links_resolve() -> None:
    for page in PAGES:
        prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#:]+)\)", prose):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # about the future of its theme
    done = subprocess.run(build, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    home = (tmp_path / "index.html").read_text()
    assert "guide/tutorial.html" in home, "the pages of docs/README.md are the navigation"


def test_generated_parts_are_current() -> None:
    check = [sys.executable, str(ROOT / "scripts/generate_reference.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def test_the_walkthrough_names_files_and_functions_that_exist() -> None:
    steps = (ROOT / "docs/internals/walkthrough.md").read_text()
    named = re.findall(r"`([\w/]+\.py)(?:\s+([\w.]+))?`", steps)
    assert len(named) > 50
    for file, name in named:
        paths = [ROOT / "src/evenflow" / file, ROOT / file, *ROOT.glob(f"src/evenflow/**/{file}")]
        code = next((path.read_text() for path in paths if path.exists()), None)
        assert code is not None, f"there is no {file}"
        for part in filter(None, name.split(".")):
            assert re.search(rf"\b(def|class) {part}\b", code), f"{file} has no {name}"


def test_the_glossary_has_each_term_once_in_order() -> None:
    lines = (ROOT / "docs/glossary.md").read_text().splitlines()
    terms = [line.split(" | ")[0].removeprefix("| ") for line in lines if line.startswith("| ")]
    assert len(terms) > 50
    assert terms[1:] == sorted(set(terms[1:]), key=str.lower)


def test_the_table_of_faults_names_tests_that_exist() -> None:
    text = (ROOT / "docs/reference/faults.md").read_text()
    named = re.findall(r"`(\S+\.py)::(test_\w+)`", text)
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert len(named) == len(rows) > 15
    for file, test in named:
        assert f"def {test}(" in (ROOT / "tests" / file).read_text(), f"{file}::{test}"
