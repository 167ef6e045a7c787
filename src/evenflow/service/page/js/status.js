// Key figures and status of the run, at the top of the page.

import { byId, el, setText, syncChildren } from "./dom.js";
import { may } from "./role.js";
import { formatBytes, formatCount, formatSaving, formatTime, pluralize } from "./format.js";

function summaryFigures(s) {
  const saving = formatSaving(s.shipped_bytes, s.round_robin_bytes, "");
  return [
    { name: "Batch", value: s.batch === null ? "" : `${s.batch}`, more: s.at === null ? "" : formatTime(s.at) },
    { name: "Workers", value: `${s.active}`, more: s.active < s.workers ? `of ${s.workers} active` : "" },
    { name: "Queries", value: formatCount(s.queries), more: "" },
    { name: "Rows into queries", value: `${formatCount(s.rows_per_second)}/s`, more: `${formatCount(s.rows)} in all` },
    { name: "State moved", value: formatBytes(s.handed_bytes), more: pluralize(s.moves, "move") },
    { name: "Shipped a batch", value: formatBytes(s.shipped_bytes), more: saving ? `${saving} vs round robin` : "same as round robin" },
  ].filter((item) => item.value);
}

export function renderSummary(summary) {
  syncChildren(
    byId("figures"),
    summaryFigures(summary),
    (item) => item.name,
    (item) => el("div", { "data-testid": `figure-${item.name.toLowerCase().replaceAll(" ", "-")}` }, el("dt", {}, item.name), el("dd", {}, el("span"), " ", el("small"))),
    (element, item) => {
      setText(element.querySelector("dd span"), item.value);
      setText(element.querySelector("small"), item.more);
    },
  );
}

const STATUS_TEXT = { starting: "waiting for the first batch", running: "running", ended: "run ended", lost: "connection lost", connecting: "connecting" };

export function renderStatus(status, paused = false) {
  const live = byId("live");
  live.dataset.status = status;
  setText(byId("live-text"), paused ? `${STATUS_TEXT[status]}, paused` : STATUS_TEXT[status]);
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
