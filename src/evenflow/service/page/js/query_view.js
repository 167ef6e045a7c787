// A query's page: definition, figures, newest results; pin, unpin, resume or cancel it.

import { request, requestWithToast, showToast } from "./api.js";
import { byId, el } from "./dom.js";
import { formatBytes, formatCount, formatPercent, pluralize, printable } from "./format.js";
import { may } from "./role.js";
import { closeButton, workerSelect } from "./submit_dialog.js";

const SHOWN_RESULTS = 20;

/** The newest results of a query, read when the dialog opens. */
function lastResults(path) {
  const section = el("section", { class: "results", "data-testid": "results" }, el("h3", {}, "Newest results"), el("p", { class: "muted" }, "reading …"));
  const show = (...children) => section.replaceChildren(section.firstChild, ...children);
  request("GET", `${path}/results?limit=${SHOWN_RESULTS}`).then(
    (page) => show(page.rows.length ? resultsTable(page) : el("p", { class: "muted" }, `none yet, after ${pluralize(page.committed, "batch")}`)),
    (error) => show(el("p", { class: "error" }, error.message)),
  );
  return section;
}

const resultText = (value) => printable(value === null ? "null" : typeof value === "object" ? JSON.stringify(value) : String(value));

const resultsTable = (page) =>
  el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": "Newest results" },
    el(
      "table",
      {},
      el("thead", {}, el("tr", {}, ...page.columns.map((column) => el("th", { scope: "col", title: column.type }, printable(column.name))))),
      el("tbody", {}, ...page.rows.toReversed().map((row) => el("tr", {}, ...page.columns.map((column) => el("td", {}, resultText(row[column.name])))))),
    ),
  );

export async function openQueryView(state, name) {
  const dialog = byId("query");
  let query;
  try {
    query = await request("GET", `api/queries/${encodeURIComponent(name)}`);
  } catch (error) {
    showToast(error.message, true);
    return false;
  }
  const facts = {
    Kind: `${query.form === "query" ? "" : `${query.form}, `}${query.kind}${query.publish ? ", publishes its results" : ""}`,
    Streams: query.streams.join(", "),
    "Runs on": query.worker === null ? `all workers, by ${query.key?.join(", ") ?? "key"}; ${pluralize(query.table_entries, "key")} routed by table` : `worker ${query.worker}${query.pinned ? ", pinned" : ""}`,
    "Could be keyed": query.key ? null : query.keyable ? "yes" : "no",
    Load: `${formatPercent(query.load)} of a core`,
    "Rows in, out": `${formatCount(query.rows_in)}, ${formatCount(query.rows_out)} in the last batch`,
    State: formatBytes(query.state_bytes),
    "Late rows": query.late ? formatCount(query.late) : null,
    Parameters: query.parameters?.join(", "),
    Result: query.columns.join(", "),
    Quarantined: query.quarantined,
  };
  const path = `api/queries/${encodeURIComponent(name)}`;
  const sendAndClose = (method, url, body) => async () => (await requestWithToast(method, url, body)) && dialog.close();
  const choice = workerSelect(state.workers, "its current worker");
  const pin = query.key || !may("operate")
    ? []
    : query.pinned
      ? [el("button", { type: "button", "data-testid": "unpin", onclick: sendAndClose("POST", `${path}/unpin`, {}) }, "Unpin")]
      : [el("label", { class: "check" }, "Pin", choice), el("button", { type: "button", "data-testid": "pin", onclick: () => sendAndClose("POST", `${path}/pin`, { worker: choice.value === "" ? null : Number(choice.value) })() }, "Pin")];
  const resume = query.quarantined && may("operate")
    ? [el("button", { type: "button", "data-testid": "resume", onclick: sendAndClose("POST", `${path}/resume`, {}) }, "Resume")]
    : [];
  const cancel = may("submit")
    ? [el("button", { type: "button", class: "danger", "data-testid": "cancel-query", onclick: sendAndClose("DELETE", path) }, "Cancel query")]
    : [];
  dialog.replaceChildren(
    el(
      "div",
      { class: "body" },
      el("h2", { id: "t-query" }, name),
      el("pre", { tabindex: "0" }, query.text),
      el("dl", { class: "facts" }, ...Object.entries(facts).filter(([, value]) => value).flatMap(([key, value]) => [el("dt", {}, key), el("dd", {}, value)])),
      lastResults(path),
      el("div", { class: "row" }, ...pin, ...resume),
      el("div", { class: "row end" }, closeButton(dialog), ...cancel),
    ),
  );
  if (!dialog.open) dialog.showModal();
  return true;
}
