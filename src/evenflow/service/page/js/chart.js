// uPlot, dressed: one look for all charts, moves marked, one cursor.

import { byId, colour, dark, workerColour } from "./dom.js";

const uPlot = window.uPlot;
const SYNC = uPlot.sync("time");

function marks(chart) {
  const { ctx, bbox } = chart;
  ctx.save();
  ctx.strokeStyle = colour("--accent");
  ctx.fillStyle = colour("--accent");
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([]);
  ctx.globalAlpha = 0.5;
  for (const at of chart.marked ?? []) {
    const x = Math.round(chart.valToPos(at, "x", true)) + 0.5;
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

const axis = (more) => ({
  stroke: () => colour("--faint"),
  font: "11px system-ui, sans-serif",
  grid: { stroke: () => colour("--grid"), width: 1 },
  ticks: { show: false },
  ...more,
});

export class Chart {
  /** `series` are uPlot's after the times; `range(low, high)` gives the ends of the y axis. */
  constructor(id, series, { value, range, readout, size = 42 }) {
    this.box = byId(id);
    this.readout = readout;
    this.box.setAttribute("role", "img");
    const options = {
      ...this.#size(),
      legend: { show: false },
      cursor: { y: false, points: { size: 5 }, drag: { x: false, y: false }, sync: { key: SYNC.key } },
      focus: { alpha: 0.18 },
      padding: [8, 6, 0, 0],
      scales: { x: { time: true }, y: { range: (_, low, high) => range(low, high) } },
      axes: [
        axis({ space: 70, size: 24, values: [[60, "{HH}:{mm}", null, null, null, null, null, null, 0], [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 0]] }),
        axis({ size, space: 34, values: (_, splits) => splits.map(value) }),
      ],
      series: [{}, ...series],
      hooks: { drawClear: [marks], setCursor: [(chart) => this.#point(chart.cursor.idx)] },
    };
    this.plot = new uPlot(options, [[], ...series.map(() => [])], this.box);
    new ResizeObserver(() => this.plot.setSize(this.#size())).observe(this.box);
    dark.addEventListener("change", () => this.plot.redraw(false, false));
  }

  #size() {
    return { width: Math.max(this.box.clientWidth, 120), height: Math.max(this.box.clientHeight, 80) };
  }

  #point(at) {
    this.hovered = at ?? null;
    this.readout?.(this.hovered);
  }

  show(data, marked, label) {
    this.plot.marked = marked;
    this.box.toggleAttribute("data-empty", data[0].length === 0);
    this.plot.setData(data);
    this.box.setAttribute("aria-label", label);
    if (this.hovered === null || this.hovered === undefined) this.readout?.(null);
  }

  /** Bring one line to the front; null: all. */
  focus(at) {
    this.plot.setSeries(at, { focus: at !== null });
  }
}

export const lineOf = (name, width = 1.6) => ({ stroke: () => colour(name), width, points: { show: false } });

export const lineOfWorker = (worker) => ({
  stroke: () => workerColour(worker),
  width: 1.3,
  points: { show: false },
});
