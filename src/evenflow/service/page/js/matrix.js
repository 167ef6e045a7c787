// Queries by workers, coloured by load.

import { byId, colour, dark, el, empty, keyed, say } from "./dom.js";
import { count, percent } from "./format.js";

export function showMatrix(state, open) {
  const table = byId("matrix");
  const { queries, summary } = state;
  if (table.dataset.workers !== `${summary.workers}`) frame(table, summary.workers);
  empty(table, queries.length ? null : "No queries yet. Submit one, and it appears here with the worker it runs on.");
  const shown = [...queries].sort((a, b) => (a.worker ?? -1) - (b.worker ?? -1) || a.name.localeCompare(b.name));
  const most = Math.max(...queries.flatMap((q) => q.loads), 1e-9);
  keyed(table.tBodies[0], shown, (q) => q.name, (q) => row(q, summary.workers, open), (tr, q) => update(tr, q, most));
  const sums = table.tFoot.rows[0].cells;
  for (const worker of state.workers) say(sums[worker.worker + 1], digits(worker.load));
  say(sums[summary.workers + 1], percent(state.workers.reduce((sum, w) => sum + w.load, 0)));
  const hidden = summary.queries - queries.length;
  say(byId("r-queries"), hidden > 0 ? `heaviest ${count(queries.length)} of ${count(summary.queries)}, percent of a core` : "percent of a core");
}

function frame(table, workers) {
  table.dataset.workers = workers;
  table.querySelectorAll("thead, tbody, tfoot").forEach((part) => part.remove());
  const numbers = Array.from({ length: workers }, (_, w) => el("th", { scope: "col" }, `${w}`));
  table.append(
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Query"), ...numbers, el("th", { scope: "col" }, "Load"))),
    el("tbody"),
    el("tfoot", {}, el("tr", {}, el("th", { scope: "row" }, "All"), ...numbers.map(() => el("td")), el("td", { class: "total" }))),
  );
}

function row(query, workers, open) {
  const name = el("button", { type: "button", class: "quiet", "data-testid": `query-${query.name}`, onclick: () => open(query.name) }, query.name);
  const cells = Array.from({ length: workers }, () => el("td", { class: "cell" }));
  return el("tr", { "data-query": query.name }, el("th", { scope: "row" }, name, el("span", { class: "chips" })), ...cells, el("td", { class: "total" }));
}

function update(tr, query, most) {
  const chips = tr.cells[0].lastChild;
  const tags = labels(query);
  if (chips.dataset.tags !== tags.join()) {
    chips.dataset.tags = tags.join();
    chips.replaceChildren(...tags.map((tag) => el("span", { class: tag === "quarantined" ? "chip bad" : "chip" }, tag)));
  }
  query.loads.forEach((load, worker) => {
    const cell = tr.cells[worker + 1];
    // The root spreads small loads: half the shade is a quarter of the load.
    const shade = Math.sqrt(load / most);
    const shaded = load > 0 ? (0.06 + (colour("--deepest") - 0.06) * shade).toFixed(2) : "";
    if (cell.shaded !== shaded + dark.matches) {
      cell.shaded = shaded + dark.matches;
      cell.style.backgroundColor = shaded && `rgb(${colour("--heat")}, ${shaded})`;
    }
    if (cell.home !== (query.worker === worker)) {
      cell.home = query.worker === worker;
      cell.classList.toggle("home", cell.home);
    }
    say(cell, load > 0 ? digits(load) : query.worker === worker ? "0" : "");
  });
  say(tr.cells[query.loads.length + 1], percent(query.load));
}

const labels = (query) =>
  [query.key ? "keyed" : null, query.form === "query" ? null : query.form, query.publish ? "publishes" : null, query.pinned ? "pinned" : null, query.quarantined ? "quarantined" : null].filter(Boolean);

const digits = (share) => {
  const value = share * 100;
  return value < 0.05 ? "0" : value < 10 ? value.toFixed(1) : `${Math.round(value)}`;
};
