"""The report of a sweep: figures, tables and claims, as Markdown and as one HTML file."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template

from evenflow.research import figures
from evenflow.research.decide_claims import count_verdicts, decide_claims
from evenflow.research.experiment import Claim, Experiment, PointResult, tidy_table
from evenflow.research.points import Rows, Scale
from evenflow.research.seed_statistics import markdown_table
from evenflow.research.sweep_folder import write_parquet_atomically


@dataclass(frozen=True, slots=True)
class ReportSection:
    """The results of one experiment."""

    experiment: Experiment
    point_count: int
    cpu_seconds: float
    row_count: int
    markdown: str
    figure_files: tuple[str, ...]
    claims: tuple[Claim, ...]


def write_section(
    experiment: Experiment, results: Sequence[PointResult], folder: Path
) -> ReportSection:
    """Write an experiment's rows and figure; return its section."""
    rows: Rows = tidy_table(list(results))
    write_parquet_atomically(rows, folder / f"{experiment.id}.parquet")
    figure_files: tuple[str, ...] = ()
    if experiment.draw is not None:
        with figures.figure_style():
            figure_files = figures.save_figure(experiment.draw(rows), folder, experiment.id)
    return ReportSection(
        experiment,
        len(results),
        sum(result.cpu_seconds for result in results),
        len(rows),
        "" if experiment.markdown is None else experiment.markdown(rows),
        figure_files,
        decide_claims(experiment, rows),
    )


def write_report(sections: Sequence[ReportSection], scale: Scale, folder: Path) -> None:
    """Write report.md, which links the figures, and report.html, which embeds them."""
    (folder / "report.md").write_text(report_markdown(sections, scale))
    (folder / "report.html").write_text(report_html(sections, scale, folder))


def _summary(sections: Sequence[ReportSection], scale: Scale) -> str:
    claims = [claim for section in sections for claim in section.claims]
    points = sum(section.point_count for section in sections)
    seconds = sum(section.cpu_seconds for section in sections)
    verdicts = count_verdicts(claims)
    return (
        f"{len(sections)} tables and figures at scale {scale}: {points:,} points in "
        f"{seconds:,.0f} CPU seconds. Of {len(claims)} claims {verdicts['holds']} hold, "
        f"{verdicts['does not hold']} do not hold and {verdicts['not decided']} are not decided: "
        "other seeds could turn them. "
        "Values are means over seeds and cases, ± their standard deviation; shades and whiskers "
        "in figures reach from the least to the greatest."
    )


def _heading(section: ReportSection) -> str:
    return f"{section.experiment.id}: {section.experiment.title}"


def _claim_rows(claims: Sequence[Claim]) -> list[list[str]]:
    return [
        [claim.text, claim.measured, str(claim.seeds or "all"), claim.verdict, claim.why]
        for claim in claims
    ]


CLAIM_COLUMNS = ("claim", "measured", "seeds", "", "why")


def report_markdown(sections: Sequence[ReportSection], scale: Scale) -> str:
    """Return the report as Markdown."""
    parts = ["# The papers reproduced", _summary(sections, scale)]
    paper = ""
    for section in sections:
        if section.experiment.paper != paper:
            paper = section.experiment.paper
            parts.append(f"## {paper}")
        parts.append(f"### {_heading(section)}")
        parts.append(f"{section.experiment.shows[0].upper()}{section.experiment.shows[1:]}.")
        parts += [f"![{_heading(section)}]({name})" for name in section.figure_files[:1]]
        parts += [section.markdown] if section.markdown else []
        parts.append(markdown_table(CLAIM_COLUMNS, _claim_rows(section.claims)))
    return "\n\n".join(parts) + "\n"


HTML_PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>The papers reproduced</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body{font:15px/1.5 system-ui,sans-serif;max-width:1080px;margin:2rem auto;padding:0 1rem;color:#222}
h2{margin-top:3rem;border-bottom:2px solid #ddd}h3{margin-top:2.2rem}
img{max-width:100%}table{border-collapse:collapse;margin:.8rem 0}
td,th{border:1px solid #ddd;padding:.3rem .6rem;text-align:left;vertical-align:top}
.holds{color:#006644}.fails{color:#b00020}.open{color:#7a5200}.verdict{white-space:nowrap}
nav a{margin-right:1em}
</style></head><body>
<h1>The papers reproduced</h1><p>$summary</p><nav>$links</nav>
$body
</body></html>
""")


def report_html(sections: Sequence[ReportSection], scale: Scale, folder: Path) -> str:
    """Return the report as one self-contained page."""
    links, body, paper = [], [], ""
    for section in sections:
        id_ = escape(section.experiment.id)
        links.append(f'<a href="#{id_}">{id_}</a>')
        if section.experiment.paper != paper:
            paper = section.experiment.paper
            body.append(f"<h2>{escape(paper)}</h2>")
        body.append(f'<h3 id="{id_}">{escape(_heading(section))}</h3>')
        body.append(f"<p>{escape(section.experiment.shows)}</p>")
        body += [
            _image_data_url(folder / name) for name in section.figure_files if name.endswith(".svg")
        ]
        body.append(_html_table(section.markdown))
        body.append(_html_claims(section.claims))
    return HTML_PAGE.substitute(
        summary=escape(_summary(sections, scale)), links=" ".join(links), body="\n".join(body)
    )


def _image_data_url(path: Path) -> str:
    # As an image, not inline: the ids of two SVGs would collide.
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<p><img alt="{escape(path.stem)}" src="data:image/svg+xml;base64,{data}"></p>'


def _html_table(table: str) -> str:
    if not table:
        return ""
    cells = [
        [cell.strip().replace("\\|", "|") for cell in line.strip("| ").split(" | ")]
        for line in table.splitlines()
        if not line.startswith("|---")
    ]
    head, *rest = [_html_row(row, "th" if index == 0 else "td") for index, row in enumerate(cells)]
    return f"<table>{head}{''.join(rest)}</table>"


def _html_row(cells: Sequence[str], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def _html_claims(claims: Sequence[Claim]) -> str:
    rows = [_html_row(CLAIM_COLUMNS, "th")]
    for text, measured, seeds, verdict, why in _claim_rows(claims):
        kind = {"holds": "holds", "does not hold": "fails"}.get(verdict, "open")
        rows.append(
            f"<tr><td>{escape(text)}</td><td>{escape(measured)}</td><td>{seeds}</td>"
            f'<td class="{kind} verdict">{verdict}</td><td>{escape(why)}</td></tr>'
        )
    return f"<table>{''.join(rows)}</table>"
