// How the loads of workers go together.

import { byId, colour, el, empty, say } from "./dom.js";

export function showCorrelation({ workers, values, batches }) {
  const table = byId("correlation");
  empty(table, values.length ? null : "Needs three batches.");
  say(byId("r-correlation"), values.length ? `last ${batches} batches` : "");
  const size = `${workers}`;
  if (table.dataset.size !== size) {
    table.dataset.size = size;
    table.classList.toggle("tiny", workers.length > 10);
    table.querySelectorAll("thead, tbody").forEach((part) => part.remove());
    const heads = () => workers.map((w) => el("th", { scope: "col" }, `${w}`));
    table.append(
      el("thead", {}, el("tr", {}, el("td"), ...heads())),
      el("tbody", {}, ...workers.map((w) => el("tr", {}, el("th", { scope: "row" }, `${w}`), ...workers.map(() => el("td", { class: "cell" }))))),
    );
  }
  values.forEach((row, one) =>
    row.forEach((value, other) => {
      const cell = table.tBodies[0].rows[one].cells[other + 1];
      const same = one === other;
      const ink = colour(value < 0 ? "--apart" : "--together");
      cell.style.backgroundColor = value === null || same ? "" : `rgb(${ink}, ${(colour("--deepest") * Math.abs(value)).toFixed(2)})`;
      say(cell, same ? "" : value === null ? "–" : workers.length <= 10 ? value.toFixed(1).replace("-0.0", "0.0") : "");
      cell.title = same ? "" : `workers ${workers[one]} and ${workers[other]}: ${value === null ? "no variation" : value.toFixed(2)}`;
    }),
  );
}
