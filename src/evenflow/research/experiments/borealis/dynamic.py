"""Plans under changing load: figures 5 to 8 (sections 5.2.1 and 5.2.2)."""

from typing import TYPE_CHECKING

import numpy as np

from evenflow.research import figures
from evenflow.research.experiment import Claim, Experiment
from evenflow.research.experiments.borealis import common
from evenflow.research.experiments.borealis.common import (
    LATENCY_RATIO_LABEL,
    LOAD_LABEL,
    LOADS,
    PAPER,
    point_grid,
)
from evenflow.research.operator_simulator.simulation import (
    SimulationConfig,
    simulate_arrivals,
    simulate_network,
)
from evenflow.research.operator_simulator.workload import (
    calibrate_streams,
    chain_network,
    periodic_streams,
)
from evenflow.research.points import Point, Row, Rows, Scale
from evenflow.research.seed_statistics import (
    Spread,
    columns_equal,
    format_number,
    group_spreads,
    make_claim,
    paired_ratios,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GLOBAL_PLANNERS = ("cor-glb", "rand-glb", "llf-glb", "variance")
LOAD_JUMPS = ("scaled", "redrawn")


def _fig5_points(scale: Scale) -> list[Point]:
    return point_grid(scale, GLOBAL_PLANNERS, [{"jump": jump} for jump in LOAD_JUMPS])


def _measure_fig5(point: Point) -> list[Row]:
    """Plan once at load 0.5, then raise it to 0.8 under LLF-BAL.

    The paper does not say how the rates rise: all by one factor (`scaled`), or drawn again for
    the new level (`redrawn`).
    """
    rng = np.random.default_rng(100 + int(point["seed"]))
    e = SimulationConfig(
        plan=str(point["algorithm"]), rebalance="llf-bal", seconds=float(point["seconds"])
    )
    network = chain_network(e.operators, e.chain_length, e.cost_seconds, e.selectivity_spread, rng)
    base = periodic_streams(
        network.source_count, e.end_seconds, e.fluctuation_seconds, e.fluctuation_ratio, rng
    )
    low = calibrate_streams(network, base, e.workers, 0.5, e.end_seconds, rng)
    high = (
        [stream.scale_rates(0.8 / 0.5) for stream in low]
        if point["jump"] == "scaled"
        else calibrate_streams(network, base, e.workers, 0.8, e.end_seconds, rng)
    )
    streams = [a.switch_at(b, e.warm_up_seconds) for a, b in zip(low, high, strict=True)]
    placement = rng.integers(0, e.workers, size=e.operators).astype(np.int32)
    report = simulate_arrivals(
        e, network, [stream.draw_arrivals(rng) for stream in streams], placement, rng
    )
    return [
        {
            "latency_ratio": report.latency_ratio,
            "moved_load": sum(report.timeline.moved_load[1:]),  # without the moves of the plan
        }
    ]


def _draw_fig5(rows: Rows) -> "Figure":
    figure, axes = figures.make_panels(2)
    figures.draw_bars(axes[0], rows, "jump", "latency_ratio", GLOBAL_PLANNERS)
    figures.draw_bars(axes[1], rows, "jump", "moved_load", GLOBAL_PLANNERS)
    axes[0].set(ylabel=LATENCY_RATIO_LABEL, title="Figure 5: load rises from 0.5 to 0.8")
    axes[1].set(ylabel="load moved", title="after the rise")
    for panel in axes:
        panel.set_xlabel("how the rates rise")
    figures.draw_legend(figure, axes)
    return figure


def _fig5_claims(rows: Rows) -> list[Claim]:
    claims = []
    for jump in LOAD_JUMPS:
        texts = {"moved_load": "less load is moved", "latency_ratio": "latency is lower"}
        for measure, text in texts.items():
            spreads = group_spreads(rows, measure, ["algorithm"], columns_equal(jump=jump))
            cor, rand, llf = (spreads[name,] for name in GLOBAL_PLANNERS[:3])
            claims.append(
                make_claim(
                    f"After the rise {text} from COR-GLB's plan (rates {jump})",
                    f"COR-GLB {cor}, RAND-GLB {rand}, LLF-GLB {llf}; "
                    f"variance {spreads['variance',]}",
                    cor.mean < min(rand.mean, llf.mean),
                    _fig5_reason(measure, jump),
                )
            )
    return claims


def _fig5_reason(measure: str, jump: str) -> str:
    if (measure, jump) == ("moved_load", "scaled"):
        return (
            "The window is one whole period, so that LLF-BAL sees means alone; when all rates rise "
            "by one factor, even means stay even. LLF-GLB's are the most even and leave nothing to "
            "move. Where rates change differently, the claim is about something."
        )
    return "The spread between seeds is of this size."


ONE_WAY_PLANNERS = ("cor-bal", "rand-bal", "llf-bal")
TWO_WAY_PLANNERS = ("cor-re-imp", "cor-se-imp")
OUR_PLANNER = "variance, every second"
FIG6_PLANNERS = (*ONE_WAY_PLANNERS, "cor-glb", OUR_PLANNER)
FIG7_PLANNERS = ("cor-bal", *TWO_WAY_PLANNERS, "cor-glb", OUR_PLANNER)


def _measure_connected(point: Point) -> list[Row]:
    return common.measure_simulation({**point, "start": "connected"})


def _fig6_points(scale: Scale) -> list[Point]:
    return point_grid(scale, FIG6_PLANNERS, [{"load": load} for load in LOADS[:-1]])


def _fig7_points(scale: Scale) -> list[Point]:
    return point_grid(scale, FIG7_PLANNERS, [{"load": load} for load in LOADS[:-1]])


def _draw_latency(rows: Rows, algorithms: tuple[str, ...], title: str) -> "Figure":
    figure, [axes] = figures.make_panels(1)
    figures.draw_lines(axes, rows, "load", "latency_ratio", algorithms)
    figures.use_log_axis(axes)
    axes.set(xlabel=LOAD_LABEL, ylabel=LATENCY_RATIO_LABEL, title=title)
    axes.legend(loc="upper left")
    return figure


def _draw_fig6(rows: Rows) -> "Figure":
    return _draw_latency(rows, FIG6_PLANNERS, "Figure 6: from connected plans")


def _draw_fig7(rows: Rows) -> "Figure":
    return _draw_latency(rows, FIG7_PLANNERS, "Figure 7: from connected plans")


def _fig6_claims(rows: Rows) -> list[Claim]:
    rand, llf, glb = (
        paired_ratios(rows, "latency_ratio", "cor-bal", other, ["load", "seed"])
        for other in ("rand-bal", "llf-bal", "cor-glb")
    )
    moved = {
        name: group_spreads(rows, "moved_load", ["algorithm"])[name,] for name in ONE_WAY_PLANNERS
    }
    means = [value.mean for value in moved.values()]
    return [
        make_claim(
            "COR-BAL has the lowest latency ratio of the one-way algorithms",
            f"{rand} times RAND-BAL's, {llf} times LLF-BAL's",
            max(rand.mean, llf.mean) < 0.95,
            "A few per cent lower, less than seeds differ. In a connected plan all operators "
            "of a worker have the same series up to a factor, so that their scores tie: at first "
            "the choice by correlation has nothing to choose from.",
        ),
        make_claim(
            "One-way algorithms move almost the same load",
            ", ".join(f"{name.upper()} {value}" for name, value in moved.items()),
            max(means) <= 1.25 * min(means),
            "The mean differs by more than a quarter; little is moved at all.",
        ),
        make_claim(
            "They perform much worse than COR-GLB",
            f"COR-BAL {glb} times COR-GLB's latency ratio",
            glb.mean > 2,
        ),
    ]


def _fig7_claims(rows: Rows) -> list[Claim]:
    claims = []
    for name in TWO_WAY_PLANNERS:
        ratio = paired_ratios(rows, "latency_ratio", name, "cor-bal", ["load", "seed"])
        claims.append(
            make_claim(
                f"{name.upper()} has a much smaller latency ratio than COR-BAL",
                f"{ratio} times COR-BAL's",
                ratio.mean < 0.5,
            )
        )
    ours = paired_ratios(rows, "latency_ratio", OUR_PLANNER, "cor-se-imp", ["load", "seed"])
    moved = paired_ratios(rows, "moved_load", OUR_PLANNER, "cor-se-imp", ["load", "seed"])
    claims.append(
        make_claim(
            "(ours) variance, every second, does better than COR-SE-IMP",
            f"{ours} times its latency ratio, {moved} times its load moved",
            ours.mean < 1,
        )
    )
    return claims


FIG8_PLANNERS = (*TWO_WAY_PLANNERS, "cor-bal", "cor-glb", OUR_PLANNER)
METRICS = {
    "latency_ratio": LATENCY_RATIO_LABEL,
    "moved": "load moved so far",
    "mean_std": "mean load deviation of workers",
    "mean_correlation": "mean load correlation of workers",
}


def _fig8_points(scale: Scale) -> list[Point]:
    return point_grid(scale, FIG8_PLANNERS, [{"load": 0.9}])


def _measure_fig8(point: Point) -> list[Row]:
    simulated = common.simulation_config({**point, "start": "connected"})
    time = simulate_network(simulated, 100 + int(point["seed"])).timeline
    return [
        {
            "time": second - simulated.warm_up_seconds,
            "latency_ratio": latency,
            "moved": moved,
            "mean_std": std,
            "mean_correlation": correlation,
        }
        for second, latency, moved, std, correlation in zip(
            time.seconds,
            time.latency_ratio,
            np.cumsum(time.moved_load).tolist(),
            time.mean_std,
            time.mean_correlation,
            strict=True,
        )
    ]


def _draw_fig8(rows: Rows) -> "Figure":
    figure, axes = figures.make_panels(len(METRICS), columns=2)
    for panel, (measure, label) in zip(axes, METRICS.items(), strict=True):
        figures.draw_lines(panel, rows, "time", measure, FIG8_PLANNERS, spread=False)
        panel.set(xlabel="seconds after the warm-up", ylabel=label)
    figures.use_log_axis(axes[0])
    axes[0].set_title("Figure 8: system load level 0.9")
    figures.draw_legend(figure, axes)
    return figure


def _fig8_claims(rows: Rows) -> list[Claim]:
    last = max(rows.column("time").to_pylist())
    moved = group_spreads(rows, "moved", ["algorithm"], lambda row: row["time"] == last)
    latency = group_spreads(rows, "latency_ratio", ["algorithm"])
    # The second half, when plans have settled.
    final = group_spreads(rows, "mean_std", ["algorithm"], lambda row: row["time"] > last / 2)
    re_, se, glb = "cor-re-imp", "cor-se-imp", "cor-glb"

    def describe(values: dict[tuple[str, ...], Spread]) -> str:
        return ", ".join(
            f"{name.upper()} {format_number(values[name,].mean)}" for name in (re_, se, glb)
        ) + f"; variance, every second {format_number(values[OUR_PLANNER,].mean)}"  # fmt: skip

    nearer = abs(final[re_,].mean - final[glb,].mean) < abs(final[se,].mean - final[glb,].mean)
    return [
        make_claim(
            "COR-RE-IMP moves much more load than COR-SE-IMP",
            describe(moved),
            moved[re_,].mean > 1.5 * moved[se,].mean,
        ),
        make_claim(
            "Its final plan is closer to that of the global algorithm (deviation, second half)",
            describe(final),
            nearer,
            "Both come close to COR-GLB; which is closer changes with the seeds.",
        ),
        make_claim(
            "Its average performance is worse than that of COR-SE-IMP (latency ratio)",
            describe(latency),
            latency[se,].mean < latency[re_,].mean,
            "At 200 ms a move, the better plan outweighs the moves; the paper says itself "
            "that this depends on workload and migration time.",
        ),
        make_claim(
            "COR-GLB moves less load than COR-RE-IMP and performs better",
            f"load moved {format_number(moved[glb,].mean)} against "
            f"{format_number(moved[re_,].mean)}, latency ratio "
            f"{format_number(latency[glb,].mean)} against {format_number(latency[re_,].mean)}",
            moved[glb,].mean < moved[re_,].mean and latency[glb,].mean < latency[re_,].mean,
            "It moves less, and its plan has the least deviation, but leaves the fullest "
            "worker close to 1: the queues of the connected start are then worked off slowly.",
        ),
    ]


EXPERIMENTS = (
    Experiment(
        id="borealis-fig5",
        paper=PAPER,
        title="Dynamic performance of the global algorithms",
        shows="latency and load moved when the load rises from 0.5 to 0.8 after planning",
        cost_note="5 s on 2 cores",
        points=_fig5_points,
        run=_measure_fig5,
        draw=_draw_fig5,
        claims=_fig5_claims,
    ),
    Experiment(
        id="borealis-fig6",
        paper=PAPER,
        title="Latency ratio of the one-way pairwise algorithms",
        shows="recovery from connected plans by moving operators one way between pairs of workers",
        cost_note="10 s on 2 cores",
        points=_fig6_points,
        run=_measure_connected,
        draw=_draw_fig6,
        claims=_fig6_claims,
    ),
    Experiment(
        id="borealis-fig7",
        paper=PAPER,
        title="Latency ratio of the correlation based algorithms",
        shows="recovery from connected plans by exchanging operators between pairs of workers",
        cost_note="15 s on 2 cores",
        points=_fig7_points,
        run=_measure_connected,
        draw=_draw_fig7,
        claims=_fig7_claims,
    ),
    Experiment(
        id="borealis-fig8",
        paper=PAPER,
        title="Performance of the correlation based algorithms when system load is 0.9",
        shows="latency, load moved, deviation and correlation over time",
        cost_note="5 s on 2 cores",
        points=_fig8_points,
        run=_measure_fig8,
        draw=_draw_fig8,
        claims=_fig8_claims,
    ),
)
