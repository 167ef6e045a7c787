// Correlation of worker loads.

import { byId, cssColour, el, setText, showEmptyNote } from "./dom.js";

export function renderCorrelation({ workers, values, batches }) {
  const table = byId("correlation");
  showEmptyNote(table, values.length ? null : "Needs three batches.");
  setText(byId("r-correlation"), values.length ? `last ${batches} batches` : "");
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
  values.forEach((row, first) =>
    row.forEach((value, second) => {
      const cell = table.tBodies[0].rows[first].cells[second + 1];
      const same = first === second;
      const ink = cssColour(value < 0 ? "--apart" : "--together");
      cell.style.backgroundColor = value === null || same ? "" : `rgb(${ink}, ${(cssColour("--deepest") * Math.abs(value)).toFixed(2)})`;
      setText(cell, same ? "" : value === null ? "–" : workers.length <= 10 ? value.toFixed(1).replace("-0.0", "0.0") : "");
      cell.title = same ? "" : `workers ${workers[first]} and ${workers[second]}: ${value === null ? "no variation" : value.toFixed(2)}`;
    }),
  );
}
