// The four charts over time.

import { workerSeries, lineSeries, TimeChart } from "./time_chart.js";
import { byId, cssColour, setText } from "./dom.js";
import { formatCount, formatPercent, formatRatio, formatSeconds, formatTime, pluralize } from "./format.js";

export class LoadCharts {
  #workerCount = null;

  #create(state) {
    const workers = state.summary.workers;
    const top = (_, high) => [0, Math.max(high * 1.08, 0.001)];
    const bound = { ...lineSeries("--bad", 1.4), dash: [6, 5] };
    const lines = Array.from({ length: workers }, (_, worker) => workerSeries(worker));
    const readout = (id, text) => (index) => {
      const points = this.points;
      const point = points[index ?? points.length - 1];
      if (!point) return;
      const when = index === null ? "now" : `batch ${point.batch}, ${formatTime(point.at)}`;
      setText(byId(id), `${when}: ${text(point)}`);
    };
    this.#workerCount = workers;
    this.load = new TimeChart("c-load", [...lines, lineSeries("--ink", 2), bound], {
      value: (v) => `${+(v * 100).toFixed(2)} %`,
      range: top,
      readout: readout("r-load", (p) => {
        const busiest = p.loads.indexOf(Math.max(...p.loads));
        return `busiest worker ${busiest} at ${formatPercent(p.loads[busiest])}, mean ${formatPercent(meanLoad(p))}`;
      }),
    });
    this.imbalance = new TimeChart("c-imbalance", [areaSeries("--accent"), bound], {
      value: formatRatio,
      range: (_, high) => [1, Math.max(high + (high - 1) * 0.08, 1.1)],
      readout: readout("r-imbalance", (p) => `${formatRatio(p.imbalance)}, largest over mean`),
    });
    this.seconds = new TimeChart("c-seconds", [areaSeries("--accent")], {
      value: (v) => (v < 10 ? `${+v.toFixed(2)} s` : `${Math.round(v)} s`),
      range: top,
      readout: readout("r-seconds", (p) => `${formatSeconds(p.seconds)} between commits`),
    });
    this.rows = new TimeChart("c-rows", [areaSeries("--accent")], {
      value: formatCount,
      range: top,
      readout: readout("r-rows", (p) => `${formatCount(p.rows_per_second)} rows/s into queries`),
    });
  }

  update(state) {
    if (this.#workerCount !== state.summary.workers) this.#create(state);
    const points = (this.points = state.points);
    const limit = state.summary.bound;
    const x = points.map((p) => p.at);
    const changes = state.decisions.filter((d) => d.changed).map((d) => d.at);
    const means = points.map(meanLoad);
    const bound = means.map((m) => m * limit);
    const workers = Array.from({ length: state.summary.workers }, (_, w) => points.map((p) => p.loads[w]));
    const now = points.at(-1);
    const label = (text) => (now ? `${text}, over the last ${pluralize(points.length, "batch")}` : "No batch yet");
    this.load.update([x, ...workers, means, bound], changes, label(now && `Load of ${workers.length} workers, mean ${formatPercent(meanLoad(now))} of a core, imbalance ${formatRatio(now.imbalance)}`));
    this.imbalance.update([x, points.map((p) => p.imbalance), x.map(() => limit)], changes, label(now && `Imbalance ${formatRatio(now.imbalance)}`));
    // The first batch includes the start of Spark and would dwarf all others.
    const durations = points.map((p) => (p.batch === 0 && points.length > 3 ? null : p.seconds));
    this.seconds.update([x, durations], changes, label(now && `Batch time ${formatSeconds(now.seconds)}`));
    this.rows.update([x, points.map((p) => p.rows_per_second)], changes, label(now && `Throughput ${formatCount(now.rows_per_second)} rows/s`));
  }

  /** Highlight the line of one worker; null: all. */
  focus(worker) {
    this.load?.focus(worker === null ? null : worker + 1);
  }
}

const meanLoad = (point) => point.loads.reduce((sum, load) => sum + load, 0) / Math.max(point.active, 1);

const areaSeries = (name) => ({ ...lineSeries(name), fill: () => `color-mix(in srgb, ${cssColour(name)} 12%, transparent)` });
