// Submit a query; look at one, pin, unpin or cancel it.

import { ask, asked, toast } from "./ask.js";
import { byId, el } from "./dom.js";
import { bytes, count, percent } from "./format.js";

const close = (dialog) => el("button", { type: "button", onclick: () => dialog.close() }, "Close");

const workerChoice = (workers, first) =>
  el("select", { name: "worker" }, el("option", { value: "" }, first), ...workers.filter((w) => w.status === "active").map((w) => el("option", { value: w.worker }, `worker ${w.worker}`)));

export function openSubmit(state) {
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
    schemas(state.streams),
    el("div", { class: "two" }, field("Key columns, separated by commas (empty: one worker)", el("input", { type: "text", name: "key", autocomplete: "off", spellcheck: "false" })), field("Worker", workerChoice(state.workers, "wherever it fits"))),
    el("div", { class: "row" }, check("publish", "publish its results as a stream"), check("template", "template with parameters such as :symbol")),
    error,
    el("div", { class: "row end" }, close(dialog), el("button", { type: "submit", class: "primary", "data-testid": "submit-query" }, "Submit")),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      toast((await ask("POST", "api/queries", values(form))).message);
      dialog.close();
    } catch (refusal) {
      error.hidden = false;
      error.textContent = refusal.message;
    }
  });
  dialog.replaceChildren(form);
  dialog.showModal();
}

function values(form) {
  const given = new FormData(form);
  const key = given.get("key").split(",").map((name) => name.trim()).filter(Boolean);
  return {
    name: given.get("name").trim(),
    sql: given.get("sql"),
    key: key.length ? key : null,
    publish: given.get("publish") !== null,
    template: given.get("template") !== null,
    worker: given.get("worker") === "" ? null : Number(given.get("worker")),
  };
}

const schemas = (streams) =>
  el("div", { class: "schema mono", tabindex: "0", role: "region", "aria-label": "Streams and their columns" }, ...streams.map((s) => el("div", {}, `${s.name}(${s.columns.join(", ")})`)));

export function openQuery(state, name) {
  const dialog = byId("query");
  const query = state.queries.find((one) => one.name === name);
  if (!query) return;
  const facts = {
    Kind: `${query.form === "query" ? "" : `${query.form}, `}${query.kind}${query.publish ? ", publishes its results" : ""}`,
    Streams: query.streams.join(", "),
    "Runs on": query.worker === null ? `all workers, by ${query.key?.join(", ") ?? "key"}; ${count(query.table_entries)} keys routed by table` : `worker ${query.worker}${query.pinned ? ", pinned" : ""}`,
    "Could be keyed": query.key ? null : query.keyable ? "yes" : "no",
    Load: `${percent(query.load)} of a core`,
    "Rows in, out": `${count(query.rows_in)}, ${count(query.rows_out)} in the last batch`,
    State: bytes(query.state_bytes),
    "Late rows": query.late ? count(query.late) : null,
    Parameters: query.parameters?.join(", "),
    Result: query.columns.join(", "),
    Quarantined: query.quarantined,
  };
  const path = `api/queries/${encodeURIComponent(name)}`;
  const then = (method, where, body) => async () => (await asked(method, where, body)) && dialog.close();
  const choice = workerChoice(state.workers, "where it is");
  const pin = query.key
    ? []
    : query.pinned
      ? [el("button", { type: "button", "data-testid": "unpin", onclick: then("POST", `${path}/unpin`, {}) }, "Unpin")]
      : [el("label", { class: "check" }, "Pin", choice), el("button", { type: "button", "data-testid": "pin", onclick: () => then("POST", `${path}/pin`, { worker: choice.value === "" ? null : Number(choice.value) })() }, "Pin")];
  dialog.replaceChildren(
    el(
      "div",
      { class: "body" },
      el("h2", { id: "t-query" }, name),
      el("pre", { tabindex: "0" }, query.text),
      el("dl", { class: "facts" }, ...Object.entries(facts).filter(([, value]) => value).flatMap(([key, value]) => [el("dt", {}, key), el("dd", {}, value)])),
      el("div", { class: "row" }, ...pin),
      el("div", { class: "row end" }, close(dialog), el("button", { type: "button", class: "danger", "data-testid": "cancel-query", onclick: then("DELETE", path) }, "Cancel query")),
    ),
  );
  dialog.showModal();
}
