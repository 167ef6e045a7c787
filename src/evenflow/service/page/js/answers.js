// The first thing to read: is it keeping up, is it even, what happened, what needs attention.

import { byId, el, setText, syncChildren } from "./dom.js";
import { formatAge, formatCount, formatPercent, formatRatio, formatSeconds, pluralize } from "./format.js";
import { linkTo } from "./router.js";

const SIGNS = { good: "✓", warn: "!", bad: "✕", none: "·" };
const KEEPING_UP = { "keeping up": ["Keeping up", "good"], "at the limit": ["At the limit", "warn"], "falling behind": ["Falling behind", "bad"], "not known": ["Not known yet", "none"] };

function keepingUp({ summary, points }) {
  const [title, tone] = summary.status === "ended" ? ["The run has ended", "none"] : KEEPING_UP[summary.keeping_up.verdict];
  const last = points.findLast((p) => p.batch_seconds !== null) ?? points.at(-1);
  const facts = [];
  if (last && last.input_per_second !== null && last.input_per_second !== undefined) {
    facts.push(["input", `${formatCount(last.input_per_second)} rows/s`], ["processed", `${formatCount(last.processed_per_second)} rows/s`]);
  }
  if (last) facts.push(["backlog", last.backlog_rows === null || last.backlog_rows === undefined ? "not reported" : `${formatCount(last.backlog_rows)} rows`]);
  const worst = Object.entries(points.at(-1)?.lag_seconds ?? {}).sort((a, b) => b[1] - a[1])[0];
  if (worst) facts.push(["lag", `${formatSeconds(worst[1])} (${worst[0]})`]);
  return { id: "keeping", question: "Is it keeping up?", title, tone, text: summary.keeping_up.message, facts };
}

function even({ summary, workers, decisions }) {
  const active = workers.filter((w) => w.status === "active");
  const busiest = active.reduce((top, w) => (w.load > top.load ? w : top), active[0]);
  const over = summary.imbalance > summary.bound;
  const drained = workers.length - active.length;
  if (!busiest || summary.batch === null) return { id: "even", question: "Is it even?", title: "Not known yet", tone: "none", text: "needs a batch with load", facts: [] };
  const idle = over && decisions[0]?.reason === "not_worth_it";
  const title = idle ? "Uneven, but idle" : over ? "Uneven" : "Even";
  return {
    id: "even", question: "Is it even?", title, tone: idle ? "none" : over ? "warn" : "good",
    text: `the busiest worker has ${formatRatio(summary.imbalance)} times the mean; ${idle ? "there is too little load to be worth a move" : `up to ${formatRatio(summary.bound)} is fine`}`,
    facts: [["busiest", `worker ${busiest.worker}, ${formatPercent(busiest.load)}`], ["mean", formatPercent(summary.mean_load)], ["workers", `${active.length}${drained ? ` active, ${drained} not` : ""}`]],
  };
}

function happened({ decisions, summary }) {
  const last = decisions.find((decision) => decision.changed);
  if (!last) return { id: "happened", question: "What happened?", title: "No change of plan", tone: "none", text: decisions[0]?.title ?? "no decision yet", facts: [] };
  const after = last.measured?.judgement ?? last.predicted;
  return {
    id: "happened", question: "What happened?", title: `${pluralize(last.move_count, "move")} at batch ${last.number}`, tone: "none", text: last.title, href: linkTo("decision", last.number),
    facts: [["when", formatAge((summary.at ?? last.at) - last.at)], ...(after ? [[last.measured ? "imbalance" : "predicted", `${formatRatio(last.before.imbalance)} → ${formatRatio(after.imbalance)}`]] : []), ["in all", `${pluralize(summary.plan_changes, "change")}, ${pluralize(summary.moves, "move")}`]],
  };
}

function attention(state) {
  const { problems, summary } = state;
  const counts = new Map();
  for (const problem of problems) counts.set(problem.kind, (counts.get(problem.kind) ?? 0) + 1);
  const facts = [];
  const note = (count, name, value) => count && facts.push([name, value]);
  note(Number.isInteger(summary.proposal), "proposal", `plan ${summary.proposal} waits for approval`);
  note(summary.alerts, "alerts", `${formatCount(summary.alerts)} firing`);
  note(summary.quarantined, "quarantined", pluralize(summary.quarantined, "query"));
  note(counts.get("verdict"), "limits", problems.find((p) => p.kind === "verdict")?.message);
  note(summary.late, "late rows", formatCount(summary.late));
  note(summary.set_aside, "set aside", `${formatCount(summary.set_aside)} rows without a valid time`);
  note(summary.refused, "refused", pluralize(summary.refused, "command"));
  if (summary.keeping_up.verdict === "falling behind") facts.unshift(["capacity", "add workers or cores, or submit less"]);
  const needed = summary.workers_needed;
  if (needed > summary.active) facts.push(["workers", `${needed} are needed; ${summary.active} are active`]);
  const bad = summary.quarantined || summary.alerts || summary.keeping_up.verdict === "falling behind";
  const things = facts.length;
  // Fewer workers would do: worth knowing, nothing to do.
  if (Number.isInteger(needed) && needed < summary.active) facts.push(["workers", `${needed} would do; ${summary.active} are active`]);
  return {
    id: "attention", question: "What should I do?", title: things ? `${pluralize(things, "thing")} to look at` : "Nothing", tone: bad ? "bad" : things ? "warn" : "good",
    text: things ? "" : "no failed queries, no late rows, no refused commands", facts: facts.slice(0, 4), href: things ? "#t-problems" : null,
  };
}

const createCard = (answer) =>
  el("article", { class: "answer", "data-testid": `answer-${answer.id}` }, el("h2", {}, answer.question), el("p", { class: "verdict-line" }, el("span", { class: "sign", "aria-hidden": "true" }), el("a", { class: "title" })), el("p", { class: "text" }), el("dl", {}));

function updateCard(card, answer) {
  card.dataset.tone = answer.tone;
  const [, line, text, facts] = card.children;
  setText(line.firstChild, SIGNS[answer.tone]);
  setText(line.lastChild, answer.title);
  if (answer.href) line.lastChild.setAttribute("href", answer.href);
  else line.lastChild.removeAttribute("href");
  setText(text, answer.text);
  text.title = answer.text;
  syncChildren(facts, answer.facts, ([name]) => name, ([name]) => el("div", {}, el("dt", {}, name), el("dd")), (div, [, value]) => {
    setText(div.lastChild, value);
    div.lastChild.title = value;
  });
}

export function renderAnswers(state) {
  const answers = [keepingUp(state), even(state), happened(state), attention(state)];
  syncChildren(byId("answers"), answers, (answer) => answer.id, createCard, updateCard);
}
