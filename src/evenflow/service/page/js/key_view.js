// A key's page: its share, its workers, its moves and splits over time.

import { request } from "./api.js";
import { byId, el, setText, workerColour } from "./dom.js";
import { formatPercent, formatRatio, formatTime, pluralize } from "./format.js";
import { linkTo } from "./router.js";
import { areaSeries, TimeChart, zeroBased } from "./time_chart.js";

let opened = null; // [query, key]
let chart = null;

export async function openKeyView(query, key) {
  const dialog = byId("key");
  opened = [query, key];
  chart?.destroy(); // else it would follow the cursor of the other charts
  chart = null;
  const readout = el("p", { class: "readout" });
  const box = el("div", { class: "chart" });
  const owners = el("canvas", { class: "owner-map", role: "img", "aria-label": "Workers over time" });
  const facts = el("dl", { class: "facts" });
  const moves = el("div");
  const error = el("p", { class: "error", role: "alert", hidden: true });
  dialog.replaceChildren(
    el("div", { class: "body" },
      el("h2", { id: "t-key" }, "Key ", el("span", { class: "mono" }, key), " of ", el("a", { href: linkTo("query", query) }, query)),
      error, facts,
      el("div", { class: "line-head" }, el("h3", {}, "Share of the query's row cost"), readout), box,
      el("h3", {}, "Workers over time"), owners,
      el("h3", {}, "Moves and splits"), moves,
      el("div", { class: "row end" }, el("button", { type: "button", onclick: () => dialog.close() }, "Close"))),
  );
  dialog.parts = { readout, box, owners, facts, moves, error };
  // A canvas keeps its pixels when it becomes wider: draw it again.
  new ResizeObserver(() => owners.points && owners.drawnWidth !== owners.clientWidth && drawOwners(owners, owners.points)).observe(owners);
  if (!dialog.open) dialog.showModal();
  await refreshKeyView();
}

/** Read the key again after a batch, while its page is open. */
export async function refreshKeyView() {
  const dialog = byId("key");
  if (!dialog.open || !opened) return;
  const [query, key] = opened;
  const { readout, box, owners, facts, moves, error } = dialog.parts;
  let found;
  try {
    found = await request("GET", `api/queries/${encodeURIComponent(query)}/key?key=${encodeURIComponent(key)}`);
  } catch (problem) {
    error.hidden = false;
    setText(error, problem.message);
    return;
  }
  if (opened[0] !== query || opened[1] !== key) return;
  error.hidden = true;
  const { points } = found;
  const last = points.at(-1);
  const shown = (index) => {
    const point = points[index ?? points.length - 1] ?? last;
    setText(readout, `batch ${point.batch}, ${formatTime(point.at)}: ${formatPercent(point.share)}, ${point.cpu_seconds.toFixed(3)} CPU s`);
  };
  chart ??= new TimeChart(box, [areaSeries("--w0")], { value: formatPercent, range: zeroBased, readout: (index) => chart?.shown?.(index) });
  chart.shown = shown;
  chart.update([points.map((p) => p.at), points.map((p) => p.share)], found.moves.map((move) => move.at), `Share of the key, now ${formatPercent(last.share)}`);
  const split = found.owners.length > 1;
  const rows = { "Runs on": split ? `workers ${found.owners.join(", ")}: split over ${found.owners.length}` : found.owners.length ? `worker ${found.owners[0]}` : "the query is not keyed now", Share: `${formatPercent(last.share)} in batch ${last.batch}`, Seen: `${pluralize(points.length, "batch")}, ${pluralize(found.moves.length, "change")}` };
  facts.replaceChildren(...Object.entries(rows).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
  drawOwners(owners, points);
  moves.replaceChildren(found.moves.length ? movesTable(found.moves) : el("p", { class: "muted" }, "It has not moved in these batches."));
}

/** A row per worker that had the key; coloured while it had it. */
function drawOwners(canvas, points) {
  const workers = [...new Set(points.flatMap((p) => p.owners))].sort((a, b) => a - b);
  const rowHeight = 20;
  canvas.points = points;
  canvas.drawnWidth = canvas.clientWidth;
  canvas.width = (canvas.clientWidth || 600) * devicePixelRatio;
  canvas.height = workers.length * rowHeight * devicePixelRatio;
  canvas.style.height = `${workers.length * rowHeight}px`;
  const context = canvas.getContext("2d");
  context.scale(devicePixelRatio, devicePixelRatio);
  const width = canvas.clientWidth || 600;
  const left = 74;
  const [start, end] = [points[0].at, points.at(-1).at];
  const x = (at) => left + ((at - start) / Math.max(end - start, 1e-9)) * (width - left);
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "middle";
  workers.forEach((worker, row) => {
    context.fillStyle = getComputedStyle(canvas).color;
    context.fillText(`worker ${worker}`, 0, row * rowHeight + rowHeight / 2);
    context.fillStyle = workerColour(worker);
    points.forEach((point, index) => {
      if (!point.owners.includes(worker)) return;
      const until = points[index + 1]?.at ?? end;
      context.fillRect(x(point.at), row * rowHeight + 3, Math.max(x(until) - x(point.at) + 0.6, 3), rowHeight - 6);
    });
  });
  canvas.setAttribute("aria-label", `Workers of the key: ${workers.map((worker) => `worker ${worker} in ${points.filter((p) => p.owners.includes(worker)).length} batches`).join(", ")}`);
}

const sides = (move) => (move.owners_after.length ? `${move.owners_before.join(", ")} → ${move.owners_after.join(", ")}` : `${move.before} → ${move.after}`);

const movesTable = (moves) =>
  el("table", { class: "rows" }, el("caption", { class: "sr" }, "Moves and splits, newest first"), el("thead", {}, el("tr", {}, ...["Batch", "Workers", "Imbalance", "Why"].map((head) => el("th", { scope: "col" }, head)))), el("tbody", {}, ...moves.map((move) => el("tr", {}, el("td", {}, el("a", { href: linkTo("decision", move.batch) }, `${move.batch}, ${formatTime(move.at)}`)), el("td", { class: "name" }, sides(move)), el("td", {}, `${formatRatio(move.imbalance)} → ${formatRatio(move.measured ?? move.predicted ?? move.imbalance)}`), el("td", { class: "sub" }, move.message)))));
