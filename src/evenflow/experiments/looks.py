"""One look for each algorithm, the same in every figure; ours stand out."""

from dataclasses import dataclass

from evenflow.errors import InputError

# Okabe and Ito's colours, told apart by most colour-blind eyes; red and wine are kept for ours.
BLUE, ORANGE, GREEN, SKY, PURPLE = "#0072B2", "#E69F00", "#009E73", "#56B4E9", "#CC79A7"
BLACK, GREY, BROWN, OLIVE = "#000000", "#7F7F7F", "#8C564B", "#8A8A00"
RED, WINE, ROSE = "#D7191C", "#7A0B2E", "#F46D43"


@dataclass(frozen=True, slots=True)
class Look:
    """How an algorithm is drawn and named."""

    label: str
    colour: str
    marker: str
    ours: bool = False
    dash: str = "-"


LOOKS: dict[str, Look] = {
    # operators
    "cor-glb": Look("COR-GLB", BLUE, "o"),
    "llf-glb": Look("LLF-GLB", ORANGE, "s"),
    "rand-glb": Look("RAND-GLB", GREY, "^"),
    "cor-bal": Look("COR-BAL", SKY, "o", dash="--"),
    "llf-bal": Look("LLF-BAL", BROWN, "s", dash="--"),
    "rand-bal": Look("RAND-BAL", BLACK, "^", dash="--"),
    "cor-se-imp": Look("COR-SE-IMP", GREEN, "D"),
    "cor-re-imp": Look("COR-RE-IMP", PURPLE, "v"),
    "cor-glb-se-imp": Look("COR-GLB-SE-IMP", GREEN, "D"),
    "cor-glb-re-imp": Look("COR-GLB-RE-IMP", PURPLE, "v"),
    "llf-glb-bal": Look("LLF-GLB-BAL", ORANGE, "s"),
    "rand-glb-bal": Look("RAND-GLB-BAL", GREY, "^"),
    "connected": Look("connected plan", ORANGE, "s"),
    "cut": Look("cut plan", BLUE, "o"),
    "variance": Look("variance (ours)", RED, "*", ours=True),
    "variance, every second": Look("variance, every second (ours)", WINE, "P", ours=True),
    "minimum": Look("MINIMUM (theorem 1)", BLACK, "", dash=":"),
    # queries
    "ic": Look("IC", GREEN, "s"),
    "mms": Look("MMS", PURPLE, "D"),
    "mqp": Look("MQP", BROWN, "v"),
    "offrand": Look("OffRand", BLACK, "^", dash="--"),
    "leastcost": Look("LeastCost", BLUE, "o"),
    "leastsource": Look("LeastSource", SKY, "p"),
    "leastqt": Look("LeastQT", ORANGE, "X"),
    "onrand": Look("OnRand", GREY, "^"),
    "roundrobin": Look("round robin", OLIVE, "<"),
    "single-source": Look("2-approximation", GREEN, "h"),
    "worst": Look("worst case", BLACK, "", dash=":"),
    "proposition 2": Look("proposition 2", BLACK, "", dash=":"),
    "proved": Look("proved (theorem 3)", BLACK, "", dash=":"),
    "herd": Look("herd (ours)", RED, "*", ours=True),
    "herd, moving": Look("herd with moves (ours)", ROSE, "d", ours=True),
    "partition": Look("partition (ours)", WINE, "P", ours=True),
    "repair": Look("repair (ours)", ROSE, "d", ours=True),
    # keys
    "mixed": Look("Mixed", BLUE, "o"),
    "mixedbf": Look("MixedBF", SKY, "p"),
    "mintable": Look("MinTable", ORANGE, "s"),
    "minmig": Look("MinMig", GREEN, "D"),
    "llfd": Look("LLFD", BROWN, "v"),
    "readj": Look("Readj", PURPLE, "X"),
    "simple": Look("Simple", OLIVE, "<"),
    "pkg": Look("PKG", BLACK, "^", dash="--"),
    "hash": Look("hash", GREY, "^"),
    "ideal": Look("ideal", BLACK, "", dash=":"),
    "records": Look("planning on the groups", BLUE, "o"),
    "whole": Look("with grouping (compact, ours)", WINE, "P", ours=True),
    "by worker": Look("one for each worker (ours)", WINE, "P", ours=True),
    "printed": Look("one running deviation (as printed)", BLUE, "o"),
    "cover": Look("cover (ours)", RED, "*", ours=True),
    "compact": Look("compact (ours)", WINE, "P", ours=True),
}


def look(algorithm: str) -> Look:
    """Return the look of an algorithm."""
    if algorithm not in LOOKS:
        raise InputError(f"no look is given to {algorithm}; add it to experiments/looks.py")
    return LOOKS[algorithm]
