// The four charts over time.

import { Chart, lineOf, lineOfWorker } from "./chart.js";
import { byId, colour, say } from "./dom.js";
import { clock, count, percent, plural, ratio, seconds } from "./format.js";

export class Charts {
  #of = null;

  #make(state) {
    const workers = state.summary.workers;
    const top = (_, high) => [0, Math.max(high * 1.08, 0.001)];
    const bound = { ...lineOf("--bad", 1.4), dash: [6, 5] };
    const lines = Array.from({ length: workers }, (_, worker) => lineOfWorker(worker));
    const from = (id, text) => (at) => {
      const points = this.points;
      const point = points[at ?? points.length - 1];
      if (!point) return;
      const when = at === null ? "now" : `batch ${point.batch}, ${clock(point.at)}`;
      say(byId(id), `${when}: ${text(point)}`);
    };
    this.#of = workers;
    this.load = new Chart("c-load", [...lines, lineOf("--ink", 2), bound], {
      value: (v) => `${+(v * 100).toFixed(2)} %`,
      range: top,
      readout: from("r-load", (p) => {
        const most = p.loads.indexOf(Math.max(...p.loads));
        return `busiest worker ${most} at ${percent(p.loads[most])}, mean ${percent(mean(p))}`;
      }),
    });
    this.imbalance = new Chart("c-imbalance", [filled("--accent"), bound], {
      value: ratio,
      range: (_, high) => [1, Math.max(high + (high - 1) * 0.08, 1.1)],
      readout: from("r-imbalance", (p) => `${ratio(p.imbalance)}, largest over mean`),
    });
    this.seconds = new Chart("c-seconds", [filled("--accent")], {
      value: (v) => (v < 10 ? `${+v.toFixed(2)} s` : `${Math.round(v)} s`),
      range: top,
      readout: from("r-seconds", (p) => `${seconds(p.seconds)} from border to border`),
    });
    this.rows = new Chart("c-rows", [filled("--accent")], {
      value: count,
      range: top,
      readout: from("r-rows", (p) => `${count(p.rows_per_second)} rows/s into queries`),
    });
  }

  show(state) {
    if (this.#of !== state.summary.workers) this.#make(state);
    const points = (this.points = state.points);
    const limit = state.summary.bound;
    const x = points.map((p) => p.at);
    const marked = state.decisions.filter((d) => d.changed).map((d) => d.at);
    const means = points.map(mean);
    const bound = means.map((m) => m * limit);
    const workers = Array.from({ length: state.summary.workers }, (_, w) => points.map((p) => p.loads[w]));
    const now = points.at(-1);
    const label = (text) => (now ? `${text}, over the last ${plural(points.length, "batch")}`.replace("batchs", "batches") : "No batch yet");
    this.load.show([x, ...workers, means, bound], marked, label(now && `Load of ${workers.length} workers, mean ${percent(mean(now))} of a core, imbalance ${ratio(now.imbalance)}`));
    this.imbalance.show([x, points.map((p) => p.imbalance), x.map(() => limit)], marked, label(now && `Imbalance ${ratio(now.imbalance)}`));
    // The first batch has Spark's start in it, which would dwarf all others.
    const lasted = points.map((p) => (p.batch === 0 && points.length > 3 ? null : p.seconds));
    this.seconds.show([x, lasted], marked, label(now && `Batch time ${seconds(now.seconds)}`));
    this.rows.show([x, points.map((p) => p.rows_per_second)], marked, label(now && `Throughput ${count(now.rows_per_second)} rows a second`));
  }

  /** Show one worker's line before the others. */
  focus(worker) {
    this.load?.focus(worker === null ? null : worker + 1);
  }
}

const mean = (point) => point.loads.reduce((sum, load) => sum + load, 0) / Math.max(point.active, 1);

const filled = (name) => ({ ...lineOf(name), fill: () => `color-mix(in srgb, ${colour(name)} 12%, transparent)` });
