// What needs attention: proposals to answer, problems; and the last lines of the log.

import { request, requestWithToast } from "./api.js";
import { byId, el, setText, syncChildren } from "./dom.js";
import { formatBytes, formatRatio, formatSeconds, formatTime, pluralize } from "./format.js";
import { may } from "./role.js";
import { linkTo } from "./router.js";

const TITLES = { quarantined: "Quarantined", late: "Late rows", refused: "Refused", verdict: "Limit", alert: "Alert" };
const SHOWN_LINES = 100;
const POLL_MS = 3000;

/** Read apart from the state, as it changes apart from it. */
const extra = { log: [], proposals: [], alerts: [] };

const read = async (path, fallback) => {
  try {
    return await request("GET", path);
  } catch {
    return fallback;
  }
};

export async function pollProblems(onChange) {
  const before = JSON.stringify(extra);
  extra.log = await read(`api/log?limit=${SHOWN_LINES}`, extra.log);
  extra.proposals = (await read("api/proposals?limit=5", extra.proposals)).filter((proposal) => proposal.is_open);
  extra.alerts = (await read("api/alerts?limit=20", extra.alerts)).filter((alert) => alert.state === "firing");
  if (JSON.stringify(extra) !== before) onChange();
  setTimeout(() => pollProblems(onChange), POLL_MS);
}

export function renderProblems(state) {
  const found = [
    ...extra.proposals.map((proposal) => ({ ...proposal, kind: "proposal", id: `proposal ${proposal.number} ${proposal.state}` })),
    ...extra.alerts.map((alert) => ({ ...alert, kind: "alert", id: `alert ${alert.kind} ${alert.subject} ${alert.at}` })),
    ...state.problems.map((problem) => ({ ...problem, id: `${problem.kind} ${problem.subject} ${problem.message}` })),
  ];
  syncChildren(byId("problems"), found, (item) => item.id, (item) => (item.kind === "proposal" ? proposalItem(item) : problemItem(item)), null);
  setText(byId("r-problems"), found.length ? `${found.length} to look at` : "no problems");
  const lines = extra.log.map((line) => ({ ...line, id: `${line.at} ${line.message}` }));
  syncChildren(byId("log"), lines, (line) => line.id, logItem, null);
}

function proposalItem(item) {
  const answer = (verb, text, style) => el("button", { type: "button", class: style, "data-testid": `${verb}-${item.number}`, hidden: !may("operate"), onclick: () => requestWithToast("POST", `api/proposals/${item.number}/${verb}`, {}) }, text);
  const after = item.predicted ? `, imbalance ${formatRatio(item.before.imbalance)} → ${formatRatio(item.predicted.imbalance)} predicted` : "";
  const pause = item.pause_seconds === null ? "" : `, pause about ${formatSeconds(item.pause_seconds)}`;
  return el(
    "li",
    { class: "proposal" },
    el("div", { class: "head" }, el("span", { class: "chip on" }, `Plan ${item.number}, ${item.state}`), answer("approve", "Approve", "primary"), answer("reject", "Reject", "quiet")),
    el("p", {}, `${item.title}: ${pluralize(item.move_count, "move")}${after}; ${formatBytes(item.moved_bytes)} of state${pause}. ${item.message}`),
  );
}

function problemItem(item) {
  const isQuery = item.kind === "quarantined" || item.kind === "late";
  const subject = item.subject ? (isQuery ? el("a", { href: linkTo("query", item.subject) }, item.subject) : el("span", {}, item.subject)) : null;
  const resume = item.kind === "quarantined" && may("operate")
    ? el("button", { type: "button", class: "quiet", "aria-label": `Resume query ${item.subject}`, onclick: () => requestWithToast("POST", `api/queries/${encodeURIComponent(item.subject)}/resume`, {}) }, "Resume")
    : null;
  return el("li", { class: item.kind }, el("div", { class: "head" }, el("span", { class: item.kind === "quarantined" || item.kind === "alert" ? "chip bad" : "chip" }, TITLES[item.kind]), subject, resume), el("p", {}, item.message));
}

const logItem = (line) =>
  el("li", { class: line.level === "INFO" ? "" : "warn" }, el("time", {}, formatTime(line.at)), line.level === "INFO" ? "" : el("b", {}, ` ${line.level.toLowerCase()}`), ` ${line.message}`);
