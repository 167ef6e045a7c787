// Workers as bars, with drain and activate.

import { requestWithToast } from "./api.js";
import { el, hiddenHead, setText, showEmptyNote, syncChildren, tableWithHead, workerColour } from "./dom.js";
import { formatBytes, formatPercent } from "./format.js";
import { may } from "./role.js";

export function renderWorkers(state, focus) {
  const table = tableWithHead("workers", () => ["Worker", "Load", hiddenHead("Percent"), "State", "Queries", hiddenHead("Actions")]);
  const { workers, summary } = state;
  showEmptyNote(table, workers.length ? null : "No workers yet.");
  const bound = summary.mean_load * summary.bound;
  const top = Math.max(...workers.map((w) => w.load), bound, 1e-9) * 1.05;
  syncChildren(table.tBodies[0], workers, (w) => w.worker, (w) => createRow(w, focus), (tr, w) => updateRow(tr, w, top, summary.mean_load, bound));
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

function updateRow(tr, worker, top, mean, bound) {
  const cells = tr.cells;
  const place = (value) => `${Math.min((value / top) * 100, 100)}%`;
  const [fill, mark, limit] = cells[1].firstChild.children;
  const ink = workerColour(worker.worker);
  tr.className = worker.status === "drained" ? "dim" : "";
  cells[0].firstChild.style.background = ink;
  const chip = cells[0].lastChild;
  chip.hidden = worker.status === "active";
  setText(chip, worker.status);
  fill.style.width = place(worker.load);
  fill.style.background = ink;
  mark.style.left = place(mean);
  limit.style.left = place(bound);
  setText(cells[2], formatPercent(worker.load));
  setText(cells[3], formatBytes(worker.state_bytes));
  setText(cells[4], `${worker.queries}`);
  const button = cells[5].firstChild;
  const action = worker.status === "active" ? "drain" : "activate";
  button.dataset.action = action;
  setText(button, action === "drain" ? "Drain" : "Activate");
  button.setAttribute("aria-label", `${button.textContent} worker ${worker.worker}`);
}
