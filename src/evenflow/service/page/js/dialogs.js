// Dialogs: submit a query; show, pin, unpin, resume or cancel one.

import { request, requestWithToast, showToast } from "./api.js";
import { byId, el } from "./dom.js";
import { formatBytes, formatCount, formatPercent, printable } from "./format.js";
import { may } from "./role.js";

const SHOWN_RESULTS = 20;

const closeButton = (dialog) => el("button", { type: "button", onclick: () => dialog.close() }, "Close");

const workerSelect = (workers, emptyText) =>
  el("select", { name: "worker" }, el("option", { value: "" }, emptyText), ...workers.filter((w) => w.status === "active").map((w) => el("option", { value: w.worker }, `worker ${w.worker}`)));

export function openSubmitDialog(state) {
  const dialog = byId("submit");
  const error = el("p", { class: "error", role: "alert", hidden: true, "data-testid": "submit-error" });
  const field = (label, input) => el("label", {}, label, input);
  const check = (name, label) => el("label", { class: "check" }, el("input", { type: "checkbox", name }), label);
  const form = el(
    "form",
    { novalidate: true },
    el("h2", { id: "t-submit" }, "Submit a query"),
    field("Name", el("input", { type: "text", name: "name", autocomplete: "off", spellcheck: "false", maxlength: 128, autofocus: true })),
    field("SQL over streams", el("textarea", { name: "sql", spellcheck: "false", maxlength: 20000, placeholder: "SELECT …" })),
    streamSchemas(state.streams),
    el("div", { class: "two" }, field("Key columns, separated by commas (empty: one worker)", el("input", { type: "text", name: "key", autocomplete: "off", spellcheck: "false" })), field("Worker", workerSelect(state.workers, "chosen by the balancer"))),
    el("div", { class: "row" }, check("publish", "publish the results as a stream"), check("template", "template with parameters such as :symbol")),
    error,
    el("div", { class: "row end" }, closeButton(dialog), el("button", { type: "submit", class: "primary", "data-testid": "submit-query" }, "Submit")),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      showToast((await request("POST", "api/queries", submitBody(form))).message);
      dialog.close();
    } catch (rejection) {
      error.hidden = false;
      error.textContent = rejection.message;
    }
  });
  dialog.replaceChildren(form);
  dialog.showModal();
}

function submitBody(form) {
  const fields = new FormData(form);
  const key = fields.get("key").split(",").map((name) => name.trim()).filter(Boolean);
  return {
    name: fields.get("name").trim(),
    sql: fields.get("sql"),
    key: key.length ? key : null,
    publish: fields.get("publish") !== null,
    template: fields.get("template") !== null,
    worker: fields.get("worker") === "" ? null : Number(fields.get("worker")),
  };
}

const streamSchemas = (streams) =>
  el("div", { class: "schema mono", tabindex: "0", role: "region", "aria-label": "Streams and their columns" }, ...streams.map((s) => el("div", {}, `${s.name}(${s.columns.join(", ")})`)));

/** The newest results of a query, read when the dialog opens. */
function lastResults(path) {
  const section = el("section", { class: "results", "data-testid": "results" }, el("h3", {}, "Newest results"), el("p", { class: "muted" }, "reading …"));
  const show = (...children) => section.replaceChildren(section.firstChild, ...children);
  request("GET", `${path}/results?limit=${SHOWN_RESULTS}`).then(
    (page) => show(page.rows.length ? resultsTable(page) : el("p", { class: "muted" }, `none yet; ${formatCount(page.committed)} batches are committed`)),
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

export function openQueryDialog(state, name) {
  const dialog = byId("query");
  const query = state.queries.find((each) => each.name === name);
  if (!query) return;
  const facts = {
    Kind: `${query.form === "query" ? "" : `${query.form}, `}${query.kind}${query.publish ? ", publishes its results" : ""}`,
    Streams: query.streams.join(", "),
    "Runs on": query.worker === null ? `all workers, by ${query.key?.join(", ") ?? "key"}; ${formatCount(query.table_entries)} keys routed by table` : `worker ${query.worker}${query.pinned ? ", pinned" : ""}`,
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
  dialog.showModal();
}
