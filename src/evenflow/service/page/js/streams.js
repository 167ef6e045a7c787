// Streams: the workers they are sent to, and their traffic compared with round robin.

import { el, setText, showEmptyNote, syncChildren, tableWithHead, workerColour } from "./dom.js";
import { formatBytes, formatSaving } from "./format.js";

export function renderStreams(state) {
  const table = tableWithHead("streams", () => ["Stream", "Shipped to", "Bytes", "Round robin"]);
  showEmptyNote(table, state.streams.length ? null : "No streams yet.");
  syncChildren(table.tBodies[0], state.streams, (s) => s.name, createRow, (tr, s) => updateRow(tr, s, state.summary.workers));
}

const createRow = (stream) =>
  el("tr", {}, el("td", { class: "name" }, stream.name, stream.derived ? el("span", { class: "chip" }, "derived") : null), el("td", { class: "wide" }, el("span", { class: "dots", "aria-hidden": "true" }), el("div", { class: "sub" })), el("td", { class: "num" }), el("td", { class: "num" }));

function updateRow(tr, stream, workers) {
  const [dots, label] = tr.cells[1].children;
  while (dots.children.length < workers) dots.append(el("i"));
  const receivers = new Set(stream.workers);
  [...dots.children].forEach((dot, worker) => {
    dot.classList.toggle("on", receivers.has(worker));
    dot.style.background = receivers.has(worker) ? workerColour(worker) : "";
  });
  setText(label, `${stream.workers.length} of ${workers} workers`);
  setText(tr.cells[2], formatBytes(stream.shipped_bytes));
  const saving = formatSaving(stream.shipped_bytes, stream.round_robin_bytes, "same");
  setText(tr.cells[3], stream.shipped_bytes > 0 ? saving : "–");
  tr.cells[3].title = `round robin: ${formatBytes(stream.round_robin_bytes)}`;
}
