// Correlation of the workers' shares of the load: a matrix of few workers, pairs of many.

import { byId, cssColour, el, setText, showEmptyNote } from "./dom.js";

const MAX_MATRIX = 16;

export function renderCorrelation({ workers, values, batches, together, apart }, active) {
  const table = byId("correlation");
  const many = active > MAX_MATRIX;
  showEmptyNote(table, values.length ? null : "Needs three batches.");
  setText(byId("r-correlation"), values.length ? `shares of load, last ${batches} batches` : "");
  renderPairs(many ? [...together, ...apart] : []);
  if (many) {
    table.hidden = true;
    return;
  }
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

/** With many workers: the pairs that stand out. */
function renderPairs(pairs) {
  byId("pairs").replaceChildren(
    ...pairs.map((pair) => {
      const swatch = el("span", { class: "cell" }, pair.value.toFixed(2).replace("-", "−"));
      const ink = cssColour(pair.value < 0 ? "--apart" : "--together");
      swatch.style.backgroundColor = `rgb(${ink}, ${(cssColour("--deepest") * Math.abs(pair.value)).toFixed(2)})`;
      return el("div", {}, swatch, ` workers ${pair.first} and ${pair.second} burst ${pair.value < 0 ? "apart" : "together"}`);
    }),
  );
}
