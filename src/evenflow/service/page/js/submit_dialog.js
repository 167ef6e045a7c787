// Submit a query.

import { request, showToast } from "./api.js";
import { byId, el } from "./dom.js";

export const closeButton = (dialog) => el("button", { type: "button", onclick: () => dialog.close() }, "Close");

export const workerSelect = (workers, emptyText) =>
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
