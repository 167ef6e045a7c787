// Streams: who gets them, and what that costs against round robin.

import { byId, el, empty, keyed, say, workerColour } from "./dom.js";
import { bytes } from "./format.js";

export function showStreams(state) {
  const table = byId("streams");
  if (!table.tBodies.length) {
    const heads = ["Stream", "Shipped to", "Bytes", "Round robin"];
    table.append(el("thead", {}, el("tr", {}, ...heads.map((text, at) => el("th", { scope: "col", class: at > 1 ? "num" : "" }, text)))), el("tbody"));
  }
  empty(table, state.streams.length ? null : "No streams yet.");
  keyed(table.tBodies[0], state.streams, (s) => s.name, row, (tr, s) => update(tr, s, state.summary.workers));
}

const row = (stream) =>
  el("tr", {}, el("td", { class: "name" }, stream.name, stream.derived ? el("span", { class: "chip" }, "derived") : null), el("td", { class: "wide" }, el("span", { class: "dots", "aria-hidden": "true" }), el("div", { class: "sub" })), el("td", { class: "num" }), el("td", { class: "num" }));

function update(tr, stream, workers) {
  const [dots, words] = tr.cells[1].children;
  while (dots.children.length < workers) dots.append(el("i"));
  const sent = new Set(stream.workers);
  [...dots.children].forEach((dot, worker) => {
    dot.classList.toggle("on", sent.has(worker));
    dot.style.background = sent.has(worker) ? workerColour(worker) : "";
  });
  say(words, `${stream.workers.length} of ${workers} workers`);
  say(tr.cells[2], bytes(stream.shipped_bytes));
  const saved = stream.round_robin_bytes > 0 ? 1 - stream.shipped_bytes / stream.round_robin_bytes : 0;
  const text = Math.abs(saved) < 0.005 ? "same" : `${saved > 0 ? "−" : "+"}${Math.round(Math.abs(saved) * 100)} %`;
  say(tr.cells[3], stream.shipped_bytes > 0 ? text : "–");
  tr.cells[3].title = `round robin: ${bytes(stream.round_robin_bytes)}`;
}
