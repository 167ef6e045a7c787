// The status strip: the run at a glance.

import { byId, el, keyed, say } from "./dom.js";
import { bytes, count, percent, plural, ratio, seconds } from "./format.js";

function figures(s) {
  const over = s.imbalance > s.bound;
  const saved = s.round_robin_bytes > 0 ? 1 - s.shipped_bytes / s.round_robin_bytes : 0;
  return [
    { name: "Imbalance", value: ratio(s.imbalance), more: `of ${ratio(s.bound)}`, tone: over ? "over" : "" },
    { name: "Mean load", value: percent(s.mean_load), more: "" },
    { name: "Batch time", value: seconds(s.seconds), more: s.batch === null ? "" : `#${s.batch}` },
    { name: "Rows a second", value: count(s.rows_per_second), more: "" },
    { name: "Workers", value: `${s.active}`, more: s.active < s.workers ? `of ${s.workers} active` : "" },
    { name: "Queries", value: count(s.queries), more: "" },
    { name: "Plan changes", value: count(s.plan_changes), more: plural(s.moves, "move") },
    { name: "Shipped a batch", value: bytes(s.shipped_bytes), more: `${Math.abs(saved) < 0.005 ? "as" : `${saved > 0 ? "−" : "+"}${Math.round(Math.abs(saved) * 100)} % to`} round robin` },
    { name: "Quarantined", value: s.quarantined ? count(s.quarantined) : "", more: "", tone: "bad" },
    { name: "Late rows", value: s.late ? count(s.late) : "", more: "", tone: "over" },
  ].filter((item) => item.value);
}

export function showStrip(summary) {
  keyed(
    byId("figures"),
    figures(summary),
    (item) => item.name,
    (item) => el("div", { "data-testid": `figure-${item.name.toLowerCase().replaceAll(" ", "-")}` }, el("dt", {}, item.name), el("dd", {}, el("span"), " ", el("small"))),
    (element, item) => {
      element.className = item.tone ?? "";
      say(element.querySelector("dd span"), item.value);
      say(element.querySelector("small"), item.more);
    },
  );
}

const WORDS = { starting: "waiting for the first batch", running: "running", ended: "run ended", lost: "connection lost", connecting: "connecting" };

export function showStatus(status) {
  const live = byId("live");
  live.dataset.status = status;
  say(byId("live-text"), WORDS[status]);
  document.body.classList.toggle("stale", status === "lost");
  const banner = byId("banner");
  banner.hidden = status !== "lost";
  say(banner, status === "lost" ? "The service does not answer. What you see is the last that was known; trying again." : "");
  for (const id of ["open-submit", "rollback"]) byId(id).disabled = status === "lost" || status === "ended";
}

export const announce = (decision) =>
  say(byId("said"), `Plan changed at batch ${decision.number}: ${plural(decision.move_count, "move")}. ${decision.message}`);
