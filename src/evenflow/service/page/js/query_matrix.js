// Load of queries by worker.

import { byId, cssColour, darkMode, el, setText, showEmptyNote, syncChildren } from "./dom.js";
import { formatCount, formatPercent } from "./format.js";

export function renderMatrix(state, open) {
  const table = byId("matrix");
  const { queries, summary } = state;
  if (table.dataset.workers !== `${summary.workers}`) createFrame(table, summary.workers);
  showEmptyNote(table, queries.length ? null : "No queries yet. Submit one, and it appears here with the worker it runs on.");
  const shown = [...queries].sort((a, b) => (a.worker ?? -1) - (b.worker ?? -1) || a.name.localeCompare(b.name));
  const largest = Math.max(...queries.flatMap((q) => q.loads), 1e-9);
  syncChildren(table.tBodies[0], shown, (q) => q.name, (q) => createRow(q, summary.workers, open), (tr, q) => updateRow(tr, q, largest));
  const sums = table.tFoot.rows[0].cells;
  for (const worker of state.workers) setText(sums[worker.worker + 1], percentDigits(worker.load));
  setText(sums[summary.workers + 1], formatPercent(state.workers.reduce((sum, w) => sum + w.load, 0)));
  const hidden = summary.queries - queries.length;
  setText(byId("r-queries"), hidden > 0 ? `heaviest ${formatCount(queries.length)} of ${formatCount(summary.queries)}, percent of a core` : "percent of a core");
}

function createFrame(table, workers) {
  table.dataset.workers = workers;
  table.querySelectorAll("thead, tbody, tfoot").forEach((part) => part.remove());
  const numbers = Array.from({ length: workers }, (_, w) => el("th", { scope: "col" }, `${w}`));
  table.append(
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Query"), ...numbers, el("th", { scope: "col" }, "Load"))),
    el("tbody"),
    el("tfoot", {}, el("tr", {}, el("th", { scope: "row" }, "All"), ...numbers.map(() => el("td")), el("td", { class: "total" }))),
  );
}

function createRow(query, workers, open) {
  const name = el("button", { type: "button", class: "quiet", "data-testid": `query-${query.name}`, onclick: () => open(query.name) }, query.name);
  const cells = Array.from({ length: workers }, () => el("td", { class: "cell" }));
  return el("tr", { "data-query": query.name }, el("th", { scope: "row" }, name, el("span", { class: "chips" })), ...cells, el("td", { class: "total" }));
}

function updateRow(tr, query, largest) {
  const chips = tr.cells[0].lastChild;
  const tags = queryTags(query);
  if (chips.dataset.tags !== tags.join()) {
    chips.dataset.tags = tags.join();
    chips.replaceChildren(...tags.map((tag) => el("span", { class: tag === "quarantined" ? "chip bad" : "chip" }, tag)));
  }
  query.loads.forEach((load, worker) => {
    const cell = tr.cells[worker + 1];
    // The square root makes small loads visible: half the shade is a quarter of the load.
    const shade = Math.sqrt(load / largest);
    const shaded = load > 0 ? (0.06 + (cssColour("--deepest") - 0.06) * shade).toFixed(2) : "";
    if (cell.shadeKey !== shaded + darkMode.matches) {
      cell.shadeKey = shaded + darkMode.matches;
      cell.style.backgroundColor = shaded && `rgb(${cssColour("--heat")}, ${shaded})`;
    }
    if (cell.isPlacement !== (query.worker === worker)) {
      cell.isPlacement = query.worker === worker;
      cell.classList.toggle("home", cell.isPlacement);
    }
    setText(cell, load > 0 ? percentDigits(load) : query.worker === worker ? "0" : "");
  });
  setText(tr.cells[query.loads.length + 1], formatPercent(query.load));
}

const queryTags = (query) =>
  [query.key ? "keyed" : null, query.form === "query" ? null : query.form, query.publish ? "publishes" : null, query.pinned ? "pinned" : null, query.quarantined ? "quarantined" : null].filter(Boolean);

const percentDigits = (share) => {
  const value = share * 100;
  return value < 0.05 ? "0" : value < 10 ? value.toFixed(1) : `${Math.round(value)}`;
};
