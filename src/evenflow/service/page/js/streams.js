// Streams: watermark lag, the workers they are sent to, and their traffic compared with round robin.

import { el, setText, showEmptyNote, syncChildren, tableWithHead, workerColour } from "./dom.js";
import { formatBytes, formatCount, formatSaving, formatSeconds } from "./format.js";

const MAX_DOTS = 32;

export function renderStreams(state) {
  const table = tableWithHead("streams", () => ["Stream", "Shipped to", "Lag", "Bytes", "Round robin"]);
  showEmptyNote(table, state.streams.length ? null : "No streams yet.");
  const lags = state.points.at(-1)?.lag_seconds ?? {};
  const behind = state.streams.toSorted((a, b) => (lags[b.name] ?? -Infinity) - (lags[a.name] ?? -Infinity) || a.name.localeCompare(b.name));
  syncChildren(table.tBodies[0], behind, (s) => s.name, createRow, (tr, s) => updateRow(tr, s, state.summary.workers, lags[s.name]));
}

const createRow = (stream) =>
  el("tr", {}, el("td", { class: "name" }, stream.name, stream.derived ? el("span", { class: "chip" }, "derived") : null, el("span", { class: "chip bad" })), el("td", { class: "wide" }, el("span", { class: "dots", "aria-hidden": "true" }), el("div", { class: "sub" })), el("td", { class: "num" }), el("td", { class: "num" }), el("td", { class: "num" }));

function updateRow(tr, stream, workers, lag) {
  const aside = tr.cells[0].lastElementChild;
  aside.hidden = !stream.set_aside;
  setText(aside, `${formatCount(stream.set_aside)} set aside`);
  aside.title = `${formatCount(stream.set_aside - stream.ahead)} without a valid event time, ${formatCount(stream.ahead)} ahead of the clock`;
  const [dots, label] = tr.cells[1].children;
  dots.hidden = workers > MAX_DOTS;
  while (!dots.hidden && dots.children.length < workers) dots.append(el("i"));
  const receivers = new Set(stream.workers);
  [...dots.children].forEach((dot, worker) => {
    dot.classList.toggle("on", receivers.has(worker));
    dot.style.background = receivers.has(worker) ? workerColour(worker) : "";
  });
  setText(label, `${stream.workers.length} of ${workers} workers`);
  setText(tr.cells[2], lag === undefined ? "–" : formatSeconds(lag));
  setText(tr.cells[3], formatBytes(stream.shipped_bytes));
  const saving = formatSaving(stream.shipped_bytes, stream.round_robin_bytes, "same");
  setText(tr.cells[4], stream.shipped_bytes > 0 ? saving : "–");
  tr.cells[4].title = `round robin: ${formatBytes(stream.round_robin_bytes)}`;
}
