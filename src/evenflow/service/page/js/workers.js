// Workers as bars, with drain and activate.

import { asked } from "./ask.js";
import { byId, el, empty, keyed, say, workerColour } from "./dom.js";
import { bytes, percent } from "./format.js";

export function showWorkers(state, focus) {
  const table = byId("workers");
  if (!table.tBodies.length) table.append(el("thead", {}, head()), el("tbody"));
  const { workers, summary } = state;
  empty(table, workers.length ? null : "No workers yet.");
  const bound = summary.mean_load * summary.bound;
  const top = Math.max(...workers.map((w) => w.load), bound, 1e-9) * 1.05;
  keyed(table.tBodies[0], workers, (w) => w.worker, (w) => row(w, focus), (tr, w) => update(tr, w, top, summary.mean_load, bound));
}

const head = () =>
  el("tr", {}, ...["Worker", "Load", "", "State", "Queries", ""].map((text, at) => el("th", { scope: "col", class: at > 1 ? "num" : "" }, text || el("span", { class: "sr" }, at === 2 ? "Percent" : "Actions"))));

function row(worker, focus) {
  const number = worker.worker;
  const swatch = el("span", { class: "swatch", "aria-hidden": "true" });
  const button = el("button", { type: "button", class: "quiet", "data-testid": `worker-${number}` });
  button.addEventListener("click", () => asked("POST", `api/workers/${number}/${button.dataset.does}`, {}));
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

function update(tr, worker, top, mean, bound) {
  const cells = tr.cells;
  const place = (value) => `${Math.min((value / top) * 100, 100)}%`;
  const [fill, mark, limit] = cells[1].firstChild.children;
  const ink = workerColour(worker.worker);
  tr.className = worker.status === "drained" ? "dim" : "";
  cells[0].firstChild.style.background = ink;
  const chip = cells[0].lastChild;
  chip.hidden = worker.status === "active";
  say(chip, worker.status);
  fill.style.width = place(worker.load);
  fill.style.background = ink;
  mark.style.left = place(mean);
  limit.style.left = place(bound);
  say(cells[2], percent(worker.load));
  say(cells[3], bytes(worker.state_bytes));
  say(cells[4], `${worker.queries}`);
  const button = cells[5].firstChild;
  const does = worker.status === "active" ? "drain" : "activate";
  button.dataset.does = does;
  say(button, does === "drain" ? "Drain" : "Activate");
  button.setAttribute("aria-label", `${button.textContent} worker ${worker.worker}`);
}
