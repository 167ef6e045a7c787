// Load of workers over time, as lines or as a band, and imbalance.

import { areaSeries, band, dashedSeries, lineSeries, TimeChart, workerSeries, zeroBased } from "./time_chart.js";
import { byId, cssColour, el, setText, workerColour } from "./dom.js";
import { formatPercent, formatRatio, formatTime, pluralize } from "./format.js";

export const MAX_LINES = 8; // of workers; more are drawn as a band

/** Busiest, 90th, 10th percentile and mean of the active workers, computed once per point. */
const spreads = new WeakMap();
function spread(point) {
  let found = spreads.get(point);
  if (!found) {
    // Drained workers have no load: the active ones are the first after sorting.
    const loads = point.loads.toSorted((a, b) => b - a).slice(0, Math.max(point.active, 1));
    const at = (share) => loads[Math.min(Math.floor(share * loads.length), loads.length - 1)];
    const mean = loads.reduce((sum, load) => sum + load, 0) / loads.length;
    found = { max: loads[0], p90: at(0.1), p10: at(0.9), mean, busiest: point.loads.indexOf(loads[0]) };
    spreads.set(point, found);
  }
  return found;
}

export class LoadCharts {
  #workers = null;
  #focused = null;

  constructor(onZoom) {
    this.onZoom = onZoom;
    this.points = [];
  }

  #create(workers) {
    this.#workers = workers;
    this.asBand = workers > MAX_LINES;
    this.load?.destroy();
    this.imbalance?.destroy();
    const percent = (v) => `${+(v * 100).toFixed(2)} %`;
    const readout = (id, text) => (index) => {
      const point = this.points[index ?? this.points.length - 1];
      if (!point) return;
      setText(byId(id), `${index === null ? "" : `batch ${point.batch}, ${formatTime(point.at)}: `}${text(point)}`);
    };
    const common = { range: zeroBased, onZoom: this.onZoom };
    const text = (p) => {
      const s = spread(p);
      return `busiest worker ${s.busiest} at ${formatPercent(s.max)}, mean ${formatPercent(s.mean)} of a core`;
    };
    const lines = Array.from({ length: workers }, (_, worker) => workerSeries(worker));
    const focused = { ...lineSeries("--ink", 2.2), stroke: () => (this.#focused === null ? cssColour("--ink") : workerColour(this.#focused)) };
    const series = this.asBand
      ? [lineSeries("--w1", 1.6), lineSeries("--w0", 0.6), lineSeries("--w0", 0.6), lineSeries("--ink", 2), dashedSeries("--bad"), focused]
      : [...lines, lineSeries("--ink", 2), dashedSeries("--bad")];
    this.load = new TimeChart("c-load", series, { ...common, value: percent, readout: readout("r-load", text), bands: this.asBand ? [band(2, 3, "--w0", 22)] : [] });
    this.imbalance = new TimeChart("c-imbalance", [areaSeries("--w0"), dashedSeries("--bad")], {
      ...common,
      value: formatRatio,
      range: (_, high) => [1, Math.max(high + (high - 1) * 0.08, 1.1)],
      readout: readout("r-imbalance", (p) => `${formatRatio(p.imbalance)}, largest over mean`),
    });
    const key = (kind, words) => el("span", { class: "item" }, el("span", { class: kind }), ` ${words}`);
    byId("k-load").replaceChildren(
      ...(this.asBand ? [key("line two", "busiest worker"), key("box band", "10th to 90th percentile")] : []),
      key("line mean", "mean of active workers"), key("line bound", "bound"), key("mark", "plan changed"),
    );
  }

  update(state, points, changes) {
    if (this.#workers !== state.summary.workers) this.#create(state.summary.workers);
    this.points = points;
    const bound = state.summary.bound;
    const x = points.map((p) => p.at);
    const found = points.map(spread);
    const means = found.map((s) => s.mean);
    const bounds = means.map((mean) => mean * bound);
    const lines = this.asBand
      ? [found.map((s) => s.max), found.map((s) => s.p90), found.map((s) => s.p10), means, bounds, this.#focusedLine()]
      : [...Array.from({ length: this.#workers }, (_, w) => points.map((p) => p.loads[w])), means, bounds];
    const now = points.at(-1);
    const label = (text) => (now ? `${text}, over ${pluralize(points.length, "point")}` : "No batch yet");
    this.data = [x, ...lines];
    this.changes = changes;
    this.load.update(this.data, changes, label(now && `Load of ${pluralize(now.active, "active worker")}: mean ${formatPercent(spread(now).mean)}, busiest ${formatPercent(spread(now).max)} of a core`));
    this.imbalance.update([x, points.map((p) => p.imbalance), x.map(() => bound)], changes, label(now && `Imbalance ${formatRatio(now.imbalance)}, bound ${formatRatio(bound)}`));
  }

  #focusedLine() {
    return this.points.map((p) => (this.#focused === null ? null : p.loads[this.#focused]));
  }

  /** Highlight the line of one worker; null: all. */
  focus(worker) {
    if (!this.load) return;
    this.#focused = worker;
    if (!this.asBand) return void this.load.focus(worker === null ? null : worker + 1);
    this.data[this.data.length - 1] = this.#focusedLine();
    this.load.plot.setData(this.data);
  }
}
