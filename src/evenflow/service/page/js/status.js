// Key figures and status of the run, at the top of the page.

import { byId, el, setText, syncChildren } from "./dom.js";
import { may } from "./role.js";
import { formatBytes, formatCount, formatPercent, formatRatio, formatSaving, formatSeconds, pluralize } from "./format.js";

function summaryFigures(s) {
  const over = s.imbalance > s.bound;
  const saving = formatSaving(s.shipped_bytes, s.round_robin_bytes, "");
  return [
    { name: "Imbalance", value: formatRatio(s.imbalance), more: `of ${formatRatio(s.bound)}`, tone: over ? "over" : "" },
    { name: "Mean load", value: formatPercent(s.mean_load), more: "" },
    { name: "Batch time", value: formatSeconds(s.seconds), more: s.batch === null ? "" : `#${s.batch}` },
    { name: "Rows a second", value: formatCount(s.rows_per_second), more: "" },
    { name: "Workers", value: `${s.active}`, more: s.active < s.workers ? `of ${s.workers} active` : "" },
    { name: "Queries", value: formatCount(s.queries), more: "" },
    { name: "Plan changes", value: formatCount(s.plan_changes), more: pluralize(s.moves, "move") },
    { name: "Shipped a batch", value: formatBytes(s.shipped_bytes), more: saving ? `${saving} vs round robin` : "same as round robin" },
    { name: "Quarantined", value: s.quarantined ? formatCount(s.quarantined) : "", more: "", tone: "bad" },
    { name: "Late rows", value: s.late ? formatCount(s.late) : "", more: "", tone: "over" },
  ].filter((item) => item.value);
}

export function renderSummary(summary) {
  syncChildren(
    byId("figures"),
    summaryFigures(summary),
    (item) => item.name,
    (item) => el("div", { "data-testid": `figure-${item.name.toLowerCase().replaceAll(" ", "-")}` }, el("dt", {}, item.name), el("dd", {}, el("span"), " ", el("small"))),
    (element, item) => {
      element.className = item.tone ?? "";
      setText(element.querySelector("dd span"), item.value);
      setText(element.querySelector("small"), item.more);
    },
  );
}

const STATUS_TEXT = { starting: "waiting for the first batch", running: "running", ended: "run ended", lost: "connection lost", connecting: "connecting" };

export function renderStatus(status) {
  const live = byId("live");
  live.dataset.status = status;
  setText(byId("live-text"), STATUS_TEXT[status]);
  document.body.classList.toggle("stale", status === "lost");
  const banner = byId("banner");
  banner.hidden = status !== "lost";
  setText(banner, status === "lost" ? "The service cannot be reached. The page shows the last known state; reconnecting." : "");
  for (const [id, role] of [["open-submit", "submit"], ["rollback", "operate"]]) {
    byId(id).disabled = status === "lost" || status === "ended";
    byId(id).hidden = !may(role);
  }
}

export const announceDecision = (decision) =>
  setText(byId("announcer"), `Plan changed at batch ${decision.number}: ${pluralize(decision.move_count, "move")}. ${decision.message}`);
