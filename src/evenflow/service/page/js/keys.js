// Hot keys: their share of what the query's rows cost, and who owns them.

import { byId, el, empty, keyed, say, workerColour } from "./dom.js";
import { percent } from "./format.js";

export function showKeys({ hot_keys: keys }) {
  const table = byId("keys");
  if (!table.tBodies.length) {
    const heads = ["Key", "Share", "", "Worker"];
    table.append(el("thead", {}, el("tr", {}, ...heads.map((text, at) => el("th", { scope: "col", class: at > 1 ? "num" : "" }, text || el("span", { class: "sr" }, "Percent"))))), el("tbody"));
  }
  empty(table, keys.length ? null : "No keyed query has shown keys yet.");
  const most = Math.max(...keys.map((k) => k.share), 1e-9);
  keyed(table.tBodies[0], keys, (k) => `${k.query}\n${k.key}`, row, (tr, k) => update(tr, k, most));
}

const row = (key) =>
  el("tr", {}, el("td", { class: "name", title: key.query }, el("span", { class: "mono" }, key.key), el("span", { class: "sub" }, ` ${key.query}`)), el("td", { class: "wide" }, el("span", { class: "bar", "aria-hidden": "true" }, el("i"))), el("td", { class: "num" }), el("td", { class: "num" }, el("span", { class: "swatch", "aria-hidden": "true" }), el("span")));

function update(tr, key, most) {
  const fill = tr.cells[1].firstChild.firstChild;
  fill.style.width = `${(key.share / most) * 100}%`;
  fill.style.background = workerColour(key.owner);
  say(tr.cells[2], percent(key.share));
  tr.cells[3].firstChild.style.background = workerColour(key.owner);
  say(tr.cells[3].lastChild, `${key.owner}`);
}
