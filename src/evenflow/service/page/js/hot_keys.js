// Hot keys: their share of the row cost of their query, and their workers: several if split.

import { el, hiddenHead, setText, showEmptyNote, syncChildren, tableWithHead, workerColour } from "./dom.js";
import { formatPercent } from "./format.js";
import { linkTo } from "./router.js";

export function renderHotKeys({ hot_keys: keys }) {
  const table = tableWithHead("keys", () => ["Key", "Share", hiddenHead("Percent"), "Worker"]);
  showEmptyNote(table, keys.length ? null : "No keyed query has reported keys yet.");
  const largest = Math.max(...keys.map((k) => k.share), 1e-9);
  syncChildren(table.tBodies[0], keys, (k) => `${k.query}\n${k.key}`, createRow, (tr, k) => updateRow(tr, k, largest));
}

const createRow = (key) =>
  el("tr", {}, el("td", { class: "name", title: `${key.key} (${key.query})` }, el("a", { class: "quiet-link mono", href: linkTo("key", key.query, key.key) }, key.key), el("span", { class: "sub" }, ` ${key.query}`)), el("td", { class: "wide" }, el("span", { class: "bar", "aria-hidden": "true" }, el("i"))), el("td", { class: "num" }), el("td", { class: "num" }, el("span", { class: "swatch", "aria-hidden": "true" }), el("span"), el("span", { class: "chip", hidden: true }, "split")));

function updateRow(tr, key, largest) {
  const fill = tr.cells[1].firstChild.firstChild;
  fill.style.width = `${(key.share / largest) * 100}%`;
  fill.style.background = workerColour(key.owner);
  setText(tr.cells[2], formatPercent(key.share));
  const [swatch, owners, chip] = tr.cells[3].children;
  swatch.style.background = workerColour(key.owner);
  const shown = key.owners.length > 4 ? [...key.owners.slice(0, 3), "…"] : key.owners;
  setText(owners, shown.join(", "));
  chip.hidden = key.owners.length < 2;
  tr.cells[3].title = key.owners.length > 1 ? `split over ${key.owners.length} workers: ${key.owners.join(", ")}` : "";
}
