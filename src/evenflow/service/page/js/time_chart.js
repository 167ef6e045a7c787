// A uPlot chart over time: common style, plan changes marked, shared cursor, drag to zoom.

import { byId, cssColour, darkMode, workerColour } from "./dom.js";

const uPlot = window.uPlot;
const SYNC = uPlot.sync("time");
const MIN_DRAG_PIXELS = 8;

function drawPlanChanges(chart) {
  const { ctx, bbox } = chart;
  ctx.save();
  ctx.strokeStyle = cssColour("--accent");
  ctx.fillStyle = cssColour("--accent");
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([]);
  ctx.globalAlpha = 0.5;
  for (const time of chart.planChangeTimes ?? []) {
    const x = Math.round(chart.valToPos(time, "x", true)) + 0.5;
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    const size = 4 * devicePixelRatio;
    ctx.beginPath();
    ctx.moveTo(x - size, bbox.top);
    ctx.lineTo(x + size, bbox.top);
    ctx.lineTo(x, bbox.top + 1.4 * size);
    ctx.fill();
  }
  ctx.restore();
}

const axisOptions = (more) => ({
  stroke: () => cssColour("--faint"),
  font: "11px system-ui, sans-serif",
  grid: { stroke: () => cssColour("--grid"), width: 1 },
  ticks: { show: false },
  ...more,
});

/** Wide enough for the longest label. */
const axisWidth = (_, labels) => Math.max(46, 14 + 6.2 * Math.max(0, ...(labels ?? []).map((label) => `${label ?? ""}`.length)));

export class TimeChart {
  /** `series` are those of uPlot without the times; `range(low, high)` returns the y range. */
  constructor(element, series, { value, range, readout, bands = [], onZoom }) {
    this.container = typeof element === "string" ? byId(element) : element;
    this.readout = readout;
    this.container.setAttribute("role", "img");
    const options = {
      ...this.#size(),
      legend: { show: false },
      cursor: { y: false, points: { size: 5 }, drag: { x: Boolean(onZoom), y: false, setScale: false, dist: MIN_DRAG_PIXELS }, sync: { key: SYNC.key, setSeries: false } },
      focus: { alpha: 0.18 },
      padding: [8, 28, 0, 0],
      scales: { x: { time: true }, y: { range: (_, low, high) => range(low ?? 0, high ?? 0) } },
      axes: [
        axisOptions({ space: 70, size: 24, values: [[60, "{HH}:{mm}", null, null, null, null, null, null, 0], [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 0]] }),
        axisOptions({ size: axisWidth, space: 34, values: (_, splits) => splits.map(value) }),
      ],
      bands,
      series: [{}, ...series],
      hooks: {
        drawClear: [drawPlanChanges],
        setCursor: [(chart) => this.#onCursor(chart.cursor.idx)],
        setSelect: [(chart) => this.#onSelect(chart, onZoom)],
      },
    };
    this.plot = new uPlot(options, [[], ...series.map(() => [])], this.container);
    new ResizeObserver(() => this.plot.setSize(this.#size())).observe(this.container);
    darkMode.addEventListener("change", () => this.plot.redraw(false, false));
  }

  destroy() {
    this.plot.destroy();
  }

  #size() {
    return { width: Math.max(this.container.clientWidth, 120), height: Math.max(this.container.clientHeight, 60) };
  }

  #onCursor(index) {
    this.hoveredIndex = index ?? null;
    this.readout?.(this.hoveredIndex);
  }

  #onSelect(chart, onZoom) {
    const { left, width } = chart.select;
    if (!onZoom || width < MIN_DRAG_PIXELS) return;
    const [start, end] = [chart.posToVal(left, "x"), chart.posToVal(left + width, "x")];
    chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    onZoom(start, end);
  }

  update(data, planChangeTimes, label) {
    this.plot.planChangeTimes = planChangeTimes;
    this.container.toggleAttribute("data-empty", data[0].length === 0);
    this.plot.setData(data);
    this.container.setAttribute("aria-label", label);
    if (this.hoveredIndex === null || this.hoveredIndex === undefined) this.readout?.(null);
  }

  /** Highlight one line; null: all. */
  focus(index) {
    this.plot.setSeries(index, { focus: index !== null });
  }
}

const line = (stroke, width) => ({ stroke, width, points: { show: false }, spanGaps: true });

export const lineSeries = (name, width = 1.6) => line(() => cssColour(name), width);

export const workerSeries = (worker) => line(() => workerColour(worker), 1.3);

export const dashedSeries = (name) => ({ ...lineSeries(name, 1.4), dash: [6, 5] });

const tint = (name, percent) => () => `color-mix(in srgb, ${cssColour(name)} ${percent}%, transparent)`;

/** A line with the area below it. */
export const areaSeries = (name, percent = 12) => ({ ...lineSeries(name), fill: tint(name, percent) });

/** The area between two series of a chart. */
export const band = (upper, lower, name, percent) => ({ series: [upper, lower], fill: tint(name, percent) });

/** Two points at least make a line: a single batch is drawn as a short one. */
export const zeroBased = (_, high) => [0, Math.max(high * 1.08, 1e-6)];
