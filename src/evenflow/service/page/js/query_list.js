// All queries: searched, filtered and sorted by the service, which sends the rows in sight.

import { request } from "./api.js";
import { byId, cssColour, darkMode, el, setText, showEmptyNote, workerColour } from "./dom.js";
import { formatBytes, formatCount, formatPercent } from "./format.js";
import { linkTo } from "./router.js";
import { VirtualRows } from "./virtual_rows.js";

const ROW_HEIGHT = 32, PAGE = 100, SEARCH_DELAY_MS = 200, MAX_PAGES = 12;
const COLUMNS = [["Query", "name"], ["Load by worker", null], ["Load", "load"], ["Runs on", "worker"], ["Rows in", "rows_in"], ["Rows out", "rows_out"], ["State", "state_bytes"], ["Late", "late"]];
const FILTERS = { all: "All queries", keyed: "Keyed", whole: "On one worker", pinned: "Pinned", quarantined: "Quarantined", late: "With late rows" };
const STRIP_WIDTH = 160, STRIP_HEIGHT = 16;

export class QueryList {
  #order = "load";
  #descending = true;
  #pages = new Map();
  #total = 0;
  #version = 0; // of what is asked for: answers to older questions are dropped
  #fetching = new Set();
  #workers = 0;

  constructor() {
    const table = byId("queries");
    const heads = COLUMNS.map(([text, order], index) => el("th", { scope: "col", class: index > 1 && index !== 3 ? "num" : "" }, order ? el("button", { type: "button", class: "sort", "data-testid": `sort-${order}`, onclick: () => this.#sort(order) }, text) : text));
    this.heads = heads;
    table.append(el("thead", {}, el("tr", {}, ...heads)), el("tbody"));
    this.table = table;
    this.rows = new VirtualRows(table, { rowHeight: ROW_HEIGHT, keyOf: (row) => row.name, create: createRow, update: (tr, row) => updateRow(tr, row, this.#workers), onScroll: () => this.#fetchVisible() });
    byId("query-show").append(...Object.entries(FILTERS).map(([value, text]) => el("option", { value }, text)));
    byId("query-show").addEventListener("change", () => this.#ask());
    let timer = null;
    byId("query-search").addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.#ask(), SEARCH_DELAY_MS);
    });
    this.#showOrder();
  }

  /** After a batch: the rows in sight again, without a flicker. */
  refresh(state) {
    this.#workers = state.summary.workers;
    const [first, end] = this.rows.range();
    const kept = new Map([...this.#pages].filter(([page]) => page * PAGE < end + PAGE && (page + 1) * PAGE > first - PAGE));
    this.#pages = kept;
    this.#version += 1;
    this.#fetching.clear();
    this.#fetchVisible(true);
  }

  /** Draw again in the colours of the scheme. */
  redraw() {
    this.rows.render();
  }

  #sort(order) {
    this.#descending = this.#order === order ? !this.#descending : order !== "name" && order !== "worker";
    this.#order = order;
    this.#showOrder();
    this.#ask();
  }

  #showOrder() {
    COLUMNS.forEach(([, order], index) => {
      if (order === this.#order) this.heads[index].setAttribute("aria-sort", this.#descending ? "descending" : "ascending");
      else this.heads[index].removeAttribute("aria-sort");
    });
  }

  #ask() {
    this.#pages.clear();
    this.#version += 1;
    this.#fetching.clear();
    this.rows.scroller.scrollTop = 0;
    this.#fetchVisible(true);
  }

  #fetchVisible(again = false) {
    const [first, end] = this.rows.range();
    const last = Math.max(end - 1, first);
    for (let page = Math.floor(first / PAGE); page <= Math.floor(last / PAGE); page += 1) {
      if (!this.#fetching.has(page) && (again || !this.#pages.has(page))) this.#fetch(page);
    }
  }

  async #fetch(page) {
    this.#fetching.add(page);
    const version = this.#version;
    const asked = new URLSearchParams({ search: byId("query-search").value, show: byId("query-show").value, order: this.#order, descending: this.#descending ? "1" : "0", offset: page * PAGE, limit: PAGE });
    try {
      const found = await request("GET", `api/query-list?${asked}`);
      if (version !== this.#version) return;
      this.#pages.set(page, found.rows);
      if (this.#pages.size > MAX_PAGES) this.#pages.delete(this.#pages.keys().next().value);
      this.#total = found.total;
      this.#render();
    } catch {
      // The feed says when the service cannot be reached.
    } finally {
      if (version === this.#version) this.#fetching.delete(page);
    }
  }

  #render() {
    const searching = byId("query-search").value || byId("query-show").value !== "all";
    showEmptyNote(this.table, this.#total ? null : searching ? "No query fits. Search for less, or show all queries." : "No queries yet. Submit one, and it appears here with the worker it runs on.");
    setText(byId("r-queries"), `${formatCount(this.#total)} ${searching ? "found" : this.#total === 1 ? "query" : "queries"}`);
    this.rows.show(this.#total, (index) => this.#pages.get(Math.floor(index / PAGE))?.[index % PAGE]);
  }
}

function createRow(row) {
  const name = el("a", { class: "quiet-link", href: linkTo("query", row.name), "data-testid": `query-${row.name}` }, row.name);
  const number = () => el("td", { class: "num" });
  return el("tr", {}, el("th", { scope: "row", class: "name" }, name, el("span", { class: "chips" })), el("td", {}, el("canvas", { class: "strip-map", width: STRIP_WIDTH * 2, height: STRIP_HEIGHT * 2, role: "img" })), number(), el("td"), number(), number(), number(), number());
}

function updateRow(tr, row, workers) {
  const [name, strip, load, place, rowsIn, rowsOut, state, late] = tr.cells;
  const tags = [row.form === "query" ? null : row.form, row.publish ? "publishes" : null, row.pinned ? "pinned" : null, row.quarantined ? "quarantined" : null].filter(Boolean);
  const chips = name.lastChild;
  if (chips.dataset.tags !== tags.join()) {
    chips.dataset.tags = tags.join();
    chips.replaceChildren(...tags.map((tag) => el("span", { class: tag === "quarantined" ? "chip bad" : "chip" }, tag)));
  }
  drawStrip(strip.firstChild, row, workers);
  setText(load, formatPercent(row.load));
  setText(place, row.worker === null ? keyedText(row, workers) : `worker ${row.worker}`);
  setText(rowsIn, formatCount(row.rows_in));
  setText(rowsOut, formatCount(row.rows_out));
  setText(state, formatBytes(row.state_bytes));
  setText(late, row.late ? formatCount(row.late) : "");
}

function busiest(row) {
  return Object.entries(row.loads).reduce((top, entry) => (entry[1] > top[1] ? entry : top), ["", 0]);
}

function keyedText(row, workers) {
  const [worker, load] = busiest(row);
  const ratio = row.load > 0 ? (load * workers) / row.load : 0;
  return worker === "" ? "all workers, by key" : `all workers; ${worker} has ${ratio.toFixed(1)} × mean`;
}

/** One bar per worker, tall as its part of the query's load. */
function drawStrip(canvas, row, workers) {
  const [, most] = busiest(row);
  const drawn = `${workers} ${darkMode.matches} ${JSON.stringify(row.loads)} ${row.worker}`;
  if (canvas.drawn === drawn) return;
  canvas.drawn = drawn;
  const context = canvas.getContext("2d");
  const { width, height } = canvas;
  const step = width / Math.max(workers, 1);
  context.clearRect(0, 0, width, height);
  context.fillStyle = cssColour("--sunk");
  context.fillRect(0, 0, width, height);
  for (const [worker, load] of Object.entries(row.loads)) {
    const tall = most > 0 ? Math.max((load / most) * height, 2) : 0;
    context.fillStyle = workers > 32 ? cssColour("--accent") : workerColour(Number(worker));
    context.fillRect(Number(worker) * step, height - tall, Math.max(step - (workers > 64 ? 0 : 2), 1.5), tall);
  }
  canvas.setAttribute("aria-label", row.worker === null ? `load on ${Object.keys(row.loads).length} of ${workers} workers` : `load on worker ${row.worker}`);
}
