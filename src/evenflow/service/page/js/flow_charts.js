// Is it keeping up: rates, the parts of a batch, watermark lag and backlog over time.

import { areaSeries, band, dashedSeries, lineSeries, TimeChart, zeroBased } from "./time_chart.js";
import { byId, el, setText, syncChildren } from "./dom.js";
import { formatCount, formatSeconds, formatTime, pluralize } from "./format.js";

const LAG_COLOURS = ["--w0", "--w1", "--w2", "--w3", "--w4", "--w5"];

/** The parts of a batch, in seconds; null until Spark has reported on it. */
export function batchParts(point) {
  if (point.batch_seconds === null) return null;
  const fixed = Math.min(point.fixed_seconds, point.batch_seconds);
  const busiest = Math.min(point.busiest_seconds, point.batch_seconds - fixed);
  return { fixed, busiest, rest: point.batch_seconds - fixed - busiest, all: point.batch_seconds };
}

export class FlowCharts {
  #lagStreams = "";

  constructor(onZoom) {
    this.onZoom = onZoom;
    this.points = [];
    this.rates = new TimeChart("c-rates", [areaSeries("--w0"), lineSeries("--w1")], {
      value: formatCount, range: zeroBased, onZoom,
      readout: this.#readout("r-rates", (p) => (p.input_per_second === null ? `${formatCount(p.rows_per_second)} into queries` : `input ${formatCount(p.input_per_second)}, processed ${formatCount(p.processed_per_second)}`)),
    });
    // Stacked from the bottom: each line is the sum of the parts up to it.
    this.batch = new TimeChart("c-batch", [lineSeries("--part-rest", 1.2), lineSeries("--part-busiest", 1.2), areaSeries("--part-fixed", 45), dashedSeries("--bad")], {
      value: (v) => (v < 10 ? `${+v.toFixed(2)} s` : `${Math.round(v)} s`), range: zeroBased, onZoom,
      bands: [band(1, 2, "--part-rest", 30), band(2, 3, "--part-busiest", 45)],
      readout: this.#readout("r-batch", (p) => {
        const parts = batchParts(p);
        return parts ? `${formatSeconds(parts.all)}: fixed ${formatSeconds(parts.fixed)}, busiest ${formatSeconds(parts.busiest)}, rest ${formatSeconds(parts.rest)}` : `${formatSeconds(p.seconds)} between commits`;
      }),
    });
    this.backlog = null;
  }

  #readout(id, text) {
    return (index) => {
      const point = this.points[index ?? this.points.length - 1];
      if (!point) return;
      const when = index === null ? "" : `${point.batches > 1 ? `mean of ${point.batches} batches to ` : ""}batch ${point.batch}, ${formatTime(point.at)}: `;
      setText(byId(id), `${when}${text(point)}`);
    };
  }

  update(state, points, changes) {
    this.points = points;
    const x = points.map((p) => p.at);
    const now = points.at(-1);
    const label = (text) => (now ? `${text}, over ${pluralize(points.length, "point")}` : "No batch yet");
    this.rates.update([x, points.map((p) => p.input_per_second ?? null), points.map((p) => p.processed_per_second ?? null)], changes, label(`Rows a second: input ${formatCount(now?.input_per_second ?? 0)}, processed ${formatCount(now?.processed_per_second ?? 0)}`));
    // The first batch includes the start of Spark and would dwarf all others.
    const parts = points.map((p) => (p.batch === 0 && points.length > 3 ? null : batchParts(p)));
    const trigger = state.summary.trigger_seconds;
    const triggerShown = trigger && parts.some((part) => part && part.all > trigger / 8);
    this.batch.update(
      [x, parts.map((p) => p && p.all), parts.map((p) => p && p.fixed + p.busiest), parts.map((p) => p && p.fixed), x.map(() => (triggerShown ? trigger : null))],
      changes,
      label(`Batch time ${formatSeconds(now?.batch_seconds ?? now?.seconds ?? 0)}${trigger ? `, trigger ${formatSeconds(trigger)}` : ""}`),
    );
    this.#updateLag(points, x, changes, label);
    this.#updateBacklog(points, x, changes, label);
  }

  #updateLag(points, x, changes, label) {
    const now = points.at(-1)?.lag_seconds ?? {};
    const streams = Object.keys(now).sort((a, b) => now[b] - now[a] || a.localeCompare(b)).slice(0, LAG_COLOURS.length);
    const names = streams.toSorted();
    if (!this.lag || this.#lagStreams !== names.join("\n")) {
      this.#lagStreams = names.join("\n");
      this.lag?.destroy();
      this.lag = new TimeChart("c-lag", names.map((_, index) => lineSeries(LAG_COLOURS[index])), { value: formatSeconds, range: zeroBased, onZoom: this.onZoom, readout: this.#readout("r-lag", lagText) });
    }
    this.lag.update([x, ...names.map((name) => points.map((p) => p.lag_seconds[name] ?? null))], changes, label(`Watermark lag: ${lagText(points.at(-1) ?? { lag_seconds: {} })}`));
    const more = Object.keys(now).length - names.length;
    syncChildren(byId("k-lag"), [...names.map((name, index) => ({ name, index })), ...(more > 0 ? [{ name: `and ${more} more, see Streams`, index: -1 }] : [])], (item) => item.name, (item) => el("span", { class: "item" }, item.index < 0 ? null : el("span", { class: `line lag${item.index}` }), ` ${item.name}`), (span, item) => {
      if (item.index >= 0) span.firstChild.className = `line lag${item.index}`;
    });
  }

  #updateBacklog(points, x, changes, label) {
    const known = points.some((p) => p.backlog_rows !== null && p.backlog_rows !== undefined);
    byId("c-backlog").hidden = !known;
    byId("c-lag").classList.toggle("half", known);
    if (!known) return;
    this.backlog ??= new TimeChart("c-backlog", [areaSeries("--w1")], { value: formatCount, range: zeroBased, onZoom: this.onZoom });
    this.backlog.update([x, points.map((p) => p.backlog_rows ?? null)], changes, label(`Backlog ${formatCount(points.at(-1).backlog_rows ?? 0)} rows`));
  }
}

function lagText(point) {
  const lags = Object.entries(point.lag_seconds).sort((a, b) => b[1] - a[1]);
  const backlog = point.backlog_rows === null || point.backlog_rows === undefined ? "" : `, backlog ${formatCount(point.backlog_rows)} rows`;
  return lags.length ? `${lags[0][0]} ${formatSeconds(lags[0][1])}${lags.length > 1 ? " (worst)" : ""}${backlog}` : `no watermark yet${backlog}`;
}
