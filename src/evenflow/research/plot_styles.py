"""Label, colour and marker of each algorithm, the same in every figure; ours stand out."""

from dataclasses import dataclass

from evenflow.errors import InputError

# Colours of Okabe and Ito, safe for most colour-blind readers; reds are reserved for ours.
BLUE, ORANGE, GREEN, SKY, PURPLE = "#0072B2", "#E69F00", "#009E73", "#56B4E9", "#CC79A7"
BLACK, GREY, BROWN, OLIVE = "#000000", "#7F7F7F", "#8C564B", "#8A8A00"
RED, WINE, ROSE = "#D7191C", "#7A0B2E", "#F46D43"


@dataclass(frozen=True, slots=True)
class PlotStyle:
    """Label, colour and marker of an algorithm."""

    label: str
    colour: str
    marker: str
    ours: bool = False
    line_style: str = "-"


PLOT_STYLES: dict[str, PlotStyle] = {
    # operators
    "cor-glb": PlotStyle("COR-GLB", BLUE, "o"),
    "llf-glb": PlotStyle("LLF-GLB", ORANGE, "s"),
    "rand-glb": PlotStyle("RAND-GLB", GREY, "^"),
    "cor-bal": PlotStyle("COR-BAL", SKY, "o", line_style="--"),
    "llf-bal": PlotStyle("LLF-BAL", BROWN, "s", line_style="--"),
    "rand-bal": PlotStyle("RAND-BAL", BLACK, "^", line_style="--"),
    "cor-se-imp": PlotStyle("COR-SE-IMP", GREEN, "D"),
    "cor-re-imp": PlotStyle("COR-RE-IMP", PURPLE, "v"),
    "cor-glb-se-imp": PlotStyle("COR-GLB-SE-IMP", GREEN, "D"),
    "cor-glb-re-imp": PlotStyle("COR-GLB-RE-IMP", PURPLE, "v"),
    "llf-glb-bal": PlotStyle("LLF-GLB-BAL", ORANGE, "s"),
    "rand-glb-bal": PlotStyle("RAND-GLB-BAL", GREY, "^"),
    "connected": PlotStyle("connected plan", ORANGE, "s"),
    "cut": PlotStyle("cut plan", BLUE, "o"),
    "variance": PlotStyle("variance (ours)", RED, "*", ours=True),
    "variance, every second": PlotStyle("variance, every second (ours)", WINE, "P", ours=True),
    "minimum": PlotStyle("MINIMUM (theorem 1)", BLACK, "", line_style=":"),
    # queries
    "ic": PlotStyle("IC", GREEN, "s"),
    "mms": PlotStyle("MMS", PURPLE, "D"),
    "mqp": PlotStyle("MQP", BROWN, "v"),
    "offrand": PlotStyle("OffRand", BLACK, "^", line_style="--"),
    "leastcost": PlotStyle("LeastCost", BLUE, "o"),
    "leastsource": PlotStyle("LeastSource", SKY, "p"),
    "leastqt": PlotStyle("LeastQT", ORANGE, "X"),
    "onrand": PlotStyle("OnRand", GREY, "^"),
    "roundrobin": PlotStyle("round robin", OLIVE, "<"),
    "single-source": PlotStyle("2-approximation", GREEN, "h"),
    "worst": PlotStyle("worst case", BLACK, "", line_style=":"),
    "proposition 2": PlotStyle("proposition 2", BLACK, "", line_style=":"),
    "proved": PlotStyle("proved (theorem 3)", BLACK, "", line_style=":"),
    "herd": PlotStyle("herd (ours)", RED, "*", ours=True),
    "herd, moving": PlotStyle("herd with moves (ours)", ROSE, "d", ours=True),
    "partition": PlotStyle("partition (ours)", WINE, "P", ours=True),
    "repair": PlotStyle("repair (ours)", ROSE, "d", ours=True),
    # keys
    "mixed": PlotStyle("Mixed", BLUE, "o"),
    "mixedbf": PlotStyle("MixedBF", SKY, "p"),
    "mintable": PlotStyle("MinTable", ORANGE, "s"),
    "minmig": PlotStyle("MinMig", GREEN, "D"),
    "llfd": PlotStyle("LLFD", BROWN, "v"),
    "readj": PlotStyle("Readj", PURPLE, "X"),
    "readj-pairs": PlotStyle("Readj, all pairs", BROWN, "x", line_style="--"),
    "simple": PlotStyle("Simple", OLIVE, "<"),
    "pkg": PlotStyle("PKG", BLACK, "^", line_style="--"),
    "hash": PlotStyle("hash", GREY, "^"),
    "ideal": PlotStyle("ideal", BLACK, "", line_style=":"),
    "records": PlotStyle("planning on the groups", BLUE, "o"),
    "whole": PlotStyle("with grouping (compact, ours)", WINE, "P", ours=True),
    "by worker": PlotStyle("one for each worker (ours)", WINE, "P", ours=True),
    "printed": PlotStyle("one running deviation (as printed)", BLUE, "o"),
    "cover": PlotStyle("cover (ours)", RED, "*", ours=True),
    "compact": PlotStyle("compact (ours)", WINE, "P", ours=True),
}


def plot_style(algorithm: str) -> PlotStyle:
    """Return the style of an algorithm."""
    if algorithm not in PLOT_STYLES:
        raise InputError(f"no plot style for {algorithm!r}; add it to research/plot_styles.py")
    return PLOT_STYLES[algorithm]
