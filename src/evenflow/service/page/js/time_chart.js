// A uPlot chart over time: common style, plan changes marked, shared cursor.

import { byId, cssColour, darkMode, workerColour } from "./dom.js";

const uPlot = window.uPlot;
const SYNC = uPlot.sync("time");

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

export class TimeChart {
  /** `series` are those of uPlot without the times; `range(low, high)` returns the y range. */
  constructor(id, series, { value, range, readout, size = 42 }) {
    this.container = byId(id);
    this.readout = readout;
    this.container.setAttribute("role", "img");
    const options = {
      ...this.#size(),
      legend: { show: false },
      cursor: { y: false, points: { size: 5 }, drag: { x: false, y: false }, sync: { key: SYNC.key } },
      focus: { alpha: 0.18 },
      padding: [8, 6, 0, 0],
      scales: { x: { time: true }, y: { range: (_, low, high) => range(low, high) } },
      axes: [
        axisOptions({ space: 70, size: 24, values: [[60, "{HH}:{mm}", null, null, null, null, null, null, 0], [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 0]] }),
        axisOptions({ size, space: 34, values: (_, splits) => splits.map(value) }),
      ],
      series: [{}, ...series],
      hooks: { drawClear: [drawPlanChanges], setCursor: [(chart) => this.#onCursor(chart.cursor.idx)] },
    };
    this.plot = new uPlot(options, [[], ...series.map(() => [])], this.container);
    new ResizeObserver(() => this.plot.setSize(this.#size())).observe(this.container);
    darkMode.addEventListener("change", () => this.plot.redraw(false, false));
  }

  #size() {
    return { width: Math.max(this.container.clientWidth, 120), height: Math.max(this.container.clientHeight, 80) };
  }

  #onCursor(index) {
    this.hoveredIndex = index ?? null;
    this.readout?.(this.hoveredIndex);
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

const line = (stroke, width) => ({ stroke, width, points: { show: false } });

export const lineSeries = (name, width = 1.6) => line(() => cssColour(name), width);

export const workerSeries = (worker) => line(() => workerColour(worker), 1.3);
