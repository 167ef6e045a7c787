"""Queries placed once: figure 4 (all known beforehand) and figure 5 (placed as they arrive).

Figure 5 also draws MMS, the paper's best offline algorithm, which its text compares with, and what
`repair` makes of herd's placement with moves of 5 % of the queries (first panel only).
"""

from itertools import pairwise
from typing import TYPE_CHECKING

from evenflow.experiments import drawing
from evenflow.experiments.experiment import Claim, Experiment, Rows
from evenflow.experiments.herding import FACTOR, PAPER, POPULARITY, run, sweep
from evenflow.experiments.looks import look
from evenflow.experiments.measures import Spread, judged, only, short, spreads

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OFFLINE = ("partition", "ic", "mms", "mqp", "offrand")
ONLINE = ("repair", "herd", "mms", "leastsource", "leastqt", "onrand", "leastcost")
PANELS = {"popularity": ("beta", POPULARITY), "sources": ("sources_per_query", "sources per query")}
Found = dict[tuple[str, float, str], Spread]


def _draw(rows: Rows, algorithms: tuple[str, ...]) -> "Figure":
    figure, axes = drawing.panels(2)
    for panel, (name, (x, label)) in zip(axes, PANELS.items(), strict=True):
        drawing.lines(
            panel,
            rows,
            x,
            "replication_factor",
            algorithms,
            where=only(panel=name),
        )
        panel.set(xlabel=label, ylabel=FACTOR)
    drawing.plain_log(axes[0])
    axes[1].set_ylim(bottom=1)
    axes[0].set_title("two sources a query")
    axes[1].set_title("popularity exponent 2")
    drawing.legend(figure, axes, columns=len(algorithms))
    return figure


def _fig4(rows: Rows) -> "Figure":
    return _draw(rows, OFFLINE)


def _fig5(rows: Rows) -> "Figure":
    return _draw(rows, ONLINE)


def _found(rows: Rows) -> Found:
    """Return the replication factor by panel, place on its axis, and algorithm."""
    result: Found = {}
    for panel, (x, _) in PANELS.items():
        found = spreads(rows, "replication_factor", [x, "algorithm"], only(panel=panel))
        result |= {(panel, float(key[0]), key[1]): value for key, value in found.items()}
    return result


def _along(found: Found, panel: str, algorithm: str) -> list[tuple[float, float]]:
    return sorted((at, v.mean) for (p, at, a), v in found.items() if (p, a) == (panel, algorithm))


def _gains(found: Found, worse: str, better: str) -> dict[str, float]:
    """Return how many times the one exceeds the other, by where on which axis."""
    return {
        f"{PANELS[panel][1]} {at:g}": value.mean / found[panel, at, better].mean
        for (panel, at, algorithm), value in found.items()
        if algorithm == worse and (panel, at, better) in found
    }


def _most(gains: dict[str, float]) -> str:
    """Say where a gain is largest."""
    at = max(gains, key=lambda place: gains[place])
    return f"{short(gains[at])} times at {at}"


def _beaten(found: Found, best: str, others: tuple[str, ...]) -> list[str]:
    """Say where `best` is more than 1 % above one of the others."""
    return [
        f"{look(other).label} {short(100 * (1 - 1 / gain))} % below at {at}"
        for other in others
        for at, gain in _gains(found, best, other).items()
        if gain > 1.01
    ]


def _falls(found: Found, algorithms: tuple[str, ...]) -> Claim:
    lines = {name: _along(found, "popularity", name) for name in algorithms}
    falling = all(
        line[at][1] >= line[at + 1][1] * 0.99
        for line in lines.values()
        for at in range(len(line) - 1)
    )
    ends = ", ".join(
        f"{look(name).label} {short(line[0][1])} to {short(line[-1][1])}"
        for name, line in lines.items()
    )
    return judged("The larger the popularity exponent, the less replication", ends, falling)


def _rises(found: Found, algorithms: tuple[str, ...]) -> Claim:
    lines = {name: _along(found, "sources", name) for name in algorithms}
    steps = {
        name: [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(line)]
        for name, line in lines.items()
    }
    holds = all(min(s) > -0.01 and s[-1] < s[0] for s in steps.values())
    told = "; ".join(
        f"{look(name).label} " + ", ".join(short(value) for _, value in line)
        for name, line in lines.items()
    )
    return judged(
        "Replication grows with the sources per query, with diminishing returns",
        f"for {', '.join(f'{at:g}' for at, _ in lines[algorithms[0]])} sources: {told}",
        holds,
    )


def _fig4_claims(rows: Rows) -> list[Claim]:
    found = _found(rows)
    paper = OFFLINE[1:]
    gains = {name: _gains(found, "offrand", name) for name in ("ic", "mms", "partition")}
    most = max(max(gains[name].values()) for name in ("ic", "mms"))
    single = {name: found["sources", 1.0, name] for name in paper}
    beaten = _beaten(found, "mms", ("ic", "mqp", "offrand"))
    return [
        _falls(found, paper),
        judged(
            "IC and MMS are up to four times better than OffRand",
            f"IC up to {_most(gains['ic'])}, MMS up to {_most(gains['mms'])}; "
            f"partition up to {_most(gains['partition'])}",
            most >= 3.5,
            "The largest gain is smaller here: how queries share sources is "
            "given by the popularity exponent alone, their number by our reading of it.",
        ),
        judged(
            "MMS consistently outperforms the other offline algorithms",
            "; ".join(beaten) if beaten else "never more than 1 % above another",
            not beaten,
            "MMS evens the traffic of workers, not its sum: with few, very "
            "popular sources that costs copies.",
        ),
        _rises(found, paper),
        judged(
            "Single-source queries are replicated at most twice (theorem 3)",
            ", ".join(f"{look(name).label} {value}" for name, value in single.items()),
            all(value.high <= 2 for value in single.values()),
        ),
    ]


def _fig5_claims(rows: Rows) -> list[Claim]:
    found = _found(rows)
    beaten = _beaten(found, "leastcost", ("leastsource", "leastqt", "onrand"))
    source = _gains(found, "leastsource", "leastcost")
    random = {name: _gains(found, "onrand", name) for name in ("leastcost", "herd", "repair")}
    offline = _gains(found, "mms", "leastcost")
    no_better = {at: gain for at, gain in _gains(found, "onrand", "leastqt").items() if gain > 1.05}
    most = max(random["leastcost"].values())
    better = [at for at, gain in offline.items() if gain >= 0.995]
    return [
        judged(
            "LeastCost is the best of the online rules",
            "; ".join(beaten) if beaten else "nowhere more than 1 % above another",
            not beaten,
            "With a handful of sources that nearly all queries read, LeastCost fills workers "
            "with whatever shares one until they are full, and LeastSource limits what a worker "
            "gathers. At all other places LeastCost leads.",
        ),
        judged(
            "LeastSource is close to LeastCost",
            f"{short(min(source.values()))} to {_most(source)}",
            max(source.values()) < 1.5,
            "Close where sources are many; with few popular "
            "ones it keeps workers even in sources at the price of copies.",
        ),
        judged(
            "LeastCost is up to four times better than OnRand",
            f"LeastCost up to {_most(random['leastcost'])}; herd up to {_most(random['herd'])}, "
            f"repaired up to {_most(random['repair'])}",
            most >= 3.5,
            "The largest gain is smaller on these instances.",
        ),
        judged(
            "LeastCost is as good as the best offline algorithm, MMS, and sometimes better",
            f"MMS over LeastCost {short(min(offline.values()))} to {_most(offline)}; as good or "
            f"better at {', '.join(better) if better else 'none'}",
            min(offline.values()) >= 0.95,
            "Sometimes: with few popular sources an order "
            "of arrival costs copies that a plan of all queries avoids.",
        ),
        judged(
            "LeastQT is virtually identical to OnRand",
            f"OnRand over LeastQT up to {_most(_gains(found, 'onrand', 'leastqt'))}",
            not no_better,
            "Where many queries are of few types (one source a query, or "
            "heavy popularity) counting types does keep equal queries together; with types that "
            "hardly repeat it is random placement.",
        ),
    ]


EXPERIMENTS = (
    Experiment(
        id="herding-fig4",
        paper=PAPER,
        title="Offline query assignment",
        shows="how often sources are shipped when all queries are known beforehand",
        cost="65 s on 2 cores",
        points=lambda scale: sweep(scale, OFFLINE),
        run=run,
        draw=_fig4,
        claims=_fig4_claims,
    ),
    Experiment(
        id="herding-fig5",
        paper=PAPER,
        title="Online query assignment without departures",
        shows="the same when queries are placed one by one as they arrive",
        cost="25 s on 2 cores",
        points=lambda scale: sweep(
            scale, ONLINE, lambda p: p["algorithm"] != "repair" or p["panel"] == "popularity"
        ),
        run=run,
        draw=_fig5,
        claims=_fig5_claims,
    ),
)
