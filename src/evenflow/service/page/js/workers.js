// Workers, busiest first, with drain and activate.

import { requestWithToast } from "./api.js";
import { byId, cssColour, el, hiddenHead, setText, tableWithHead, workerColour } from "./dom.js";
import { formatBytes, formatCount, formatPercent } from "./format.js";
import { MAX_LINES } from "./load_charts.js";
import { may } from "./role.js";
import { VirtualRows } from "./virtual_rows.js";

const ROW_HEIGHT = 34;
let rows = null;
let scale = { top: 1, mean: 0, bound: 0 };

export function renderWorkers(state, focus) {
  const table = tableWithHead("workers", () => ["Worker", "Load", hiddenHead("Percent"), "State", "Queries", hiddenHead("Actions")]);
  rows ??= new VirtualRows(table, { rowHeight: ROW_HEIGHT, keyOf: (w) => w.worker, create: (w) => createRow(w, focus), update: updateRow });
  const { workers, summary } = state;
  const bound = summary.mean_load * summary.bound;
  scale = { top: Math.max(...workers.map((w) => w.load), bound, 1e-9) * 1.05, mean: summary.mean_load, bound, many: workers.length > MAX_LINES };
  const sorted = workers.toSorted((a, b) => (a.status === "drained") - (b.status === "drained") || b.load - a.load || a.worker - b.worker);
  rows.show(sorted.length, (index) => sorted[index]);
  const drained = workers.filter((w) => w.status !== "active").length;
  setText(byId("r-workers"), `busiest first, share of a core${drained ? `; ${formatCount(drained)} not active` : ""}`);
}

function createRow(worker, focus) {
  const number = worker.worker;
  const swatch = el("span", { class: "swatch", "aria-hidden": "true" });
  const button = el("button", { type: "button", class: "quiet", "data-testid": `worker-${number}`, hidden: !may("operate") });
  button.addEventListener("click", () => requestWithToast("POST", `api/workers/${number}/${button.dataset.action}`, {}));
  return el(
    "tr",
    { onmouseenter: () => focus(number), onmouseleave: () => focus(null), onfocusin: () => focus(number), onfocusout: () => focus(null) },
    el("td", { class: "name" }, swatch, `${number}`, el("span", { class: "chip", hidden: true })),
    el("td", { class: "wide" }, el("span", { class: "bar", "aria-hidden": "true" }, el("i"), el("b"), el("b", { class: "bound" }))),
    el("td", { class: "num" }),
    el("td", { class: "num" }),
    el("td", { class: "num" }),
    el("td", { class: "num" }, button),
  );
}

function updateRow(tr, worker) {
  const cells = tr.cells;
  const place = (value) => `${Math.min((value / scale.top) * 100, 100)}%`;
  const [fill, mark, limit] = cells[1].firstChild.children;
  const ink = scale.many ? cssColour(worker.load > scale.bound ? "--w1" : "--w0") : workerColour(worker.worker);
  tr.className = worker.status === "drained" ? "dim" : "";
  cells[0].firstChild.style.background = ink;
  const chip = cells[0].lastChild;
  chip.hidden = worker.status === "active";
  setText(chip, worker.status);
  fill.style.width = place(worker.load);
  fill.style.background = ink;
  mark.style.left = place(scale.mean);
  limit.style.left = place(scale.bound);
  setText(cells[2], formatPercent(worker.load));
  setText(cells[3], formatBytes(worker.state_bytes));
  setText(cells[4], `${worker.queries}`);
  const button = cells[5].firstChild;
  const action = worker.status === "active" ? "drain" : "activate";
  button.dataset.action = action;
  setText(button, action === "drain" ? "Drain" : "Activate");
  button.setAttribute("aria-label", `${button.textContent} worker ${worker.worker}`);
}
