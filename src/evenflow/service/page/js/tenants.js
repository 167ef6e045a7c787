// Tenants: what the queries of each use, beside its limits; hidden if there are none.

import { byId, el, setText, syncChildren, tableWithHead } from "./dom.js";
import { formatBytes, formatCount, formatPercent } from "./format.js";

const COLUMNS = [
  ["Queries", "queries", formatCount],
  ["Subscriptions", "subscriptions", formatCount],
  ["CPU", "cpu_share", formatPercent],
  ["State", "state_bytes", formatBytes],
  ["Results", "result_bytes", formatBytes],
  ["Waiting", "waiting_bytes", formatBytes],
];

export function renderTenants(state) {
  byId("tenants-panel").hidden = !state.tenants.length;
  const table = tableWithHead("tenants", () => ["Tenant", ...COLUMNS.map(([head]) => head)]);
  syncChildren(table.tBodies[0], state.tenants, (t) => t.tenant, createRow, updateRow);
}

const createRow = (tenant) =>
  el("tr", {}, el("td", { class: "name" }, tenant.tenant, el("span", { class: "chip bad" })), ...COLUMNS.map(() => el("td", { class: "num" })));

function updateRow(tr, tenant) {
  const chip = tr.cells[0].lastElementChild;
  const slowed = Object.entries(tenant.slowed);
  const parts = [slowed.length ? `${slowed.length} slowed` : "", tenant.quarantined.length ? `${tenant.quarantined.length} quarantined` : ""].filter(Boolean);
  chip.hidden = !parts.length;
  setText(chip, parts.join(", "));
  chip.title = slowed.map(([name, reason]) => `${name}: ${reason}`).join("\n");
  COLUMNS.forEach(([, name, format], at) => {
    const most = tenant[`max_${name}`];
    setText(tr.cells[at + 1], most === null ? format(tenant[name]) : `${format(tenant[name])} of ${format(most)}`);
  });
}
