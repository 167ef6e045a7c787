// Which time the charts show: the last minutes, the whole run, or a part that was zoomed to.

import { request } from "./api.js";
import { byId, el } from "./dom.js";
import { formatTime } from "./format.js";

const CHOICES = [["5 min", 300], ["15 min", 900], ["1 h", 3600], ["Whole run", null]];
const DEFAULT_SECONDS = 900;
const REFRESH_MS = 5000;

export class TimeRange {
  #onChange;
  #older = { key: "", points: [], at: 0 };

  constructor(onChange) {
    this.#onChange = onChange;
    this.seconds = DEFAULT_SECONDS; // null: the whole run
    this.zoomed = null; // [start, end]
    this.paused = false;
    this.pausedAt = Infinity;
    byId("ranges").append(
      ...CHOICES.map(([text, seconds]) => el("button", { type: "button", "data-testid": `range-${seconds ?? "all"}`, onclick: () => this.choose(seconds) }, text)),
      el("button", { type: "button", id: "zoomed", hidden: true, onclick: () => this.choose(this.seconds), title: "Back to the present" }),
    );
    byId("pause").addEventListener("click", () => this.pause(!this.paused));
    this.#show();
  }

  choose(seconds) {
    this.seconds = seconds;
    this.zoomed = null;
    this.#changed();
  }

  zoom(start, end) {
    if (end - start < 1) return;
    this.zoomed = [start, end];
    this.#changed();
  }

  pause(on) {
    this.paused = on;
    this.pausedAt = on ? this.lastAt : Infinity;
    this.#changed();
  }

  /** For links: the part of the address that says what is shown. */
  get text() {
    if (this.zoomed) return `${Math.floor(this.zoomed[0])}-${Math.ceil(this.zoomed[1])}`;
    return this.seconds === DEFAULT_SECONDS ? "" : this.seconds === null ? "all" : `${this.seconds}`;
  }

  set text(text) {
    if (text === this.text) return;
    const part = /^(\d+)-(\d+)$/.exec(text);
    this.zoomed = part ? [Number(part[1]), Number(part[2])] : null;
    if (!part) this.seconds = text === "all" ? null : CHOICES.some(([, s]) => `${s}` === text) ? Number(text) : DEFAULT_SECONDS;
    this.#show();
  }

  /** The points to draw; older ones are fetched and drawn a moment later. */
  points(state) {
    const recent = state.points;
    this.lastAt = recent.at(-1)?.at ?? 0;
    const last = Math.min(this.lastAt, this.pausedAt);
    const [start, end] = this.zoomed ?? [this.seconds === null ? -Infinity : last - this.seconds, this.pausedAt];
    const known = recent[0]?.at ?? Infinity;
    const complete = known <= start || state.summary.batches <= recent.length;
    if (complete) return recent.filter((p) => p.at >= start && p.at <= end);
    const key = this.text || "default";
    if (this.#older.key !== key || (!this.zoomed && Date.now() - this.#older.at > REFRESH_MS)) this.#fetch(key, start, end);
    return this.#older.key === key && this.#older.points.length ? this.#older.points : recent.filter((p) => p.at >= start && p.at <= end);
  }

  async #fetch(key, start, end) {
    const points = this.#older.key === key ? this.#older.points : [];
    this.#older = { key, points, at: Date.now() };
    const part = [Number.isFinite(start) ? `start=${start}` : "", Number.isFinite(end) ? `end=${end}` : "", "points=600"];
    try {
      const found = await request("GET", `api/course?${part.filter(Boolean).join("&")}`);
      if (this.#older.key !== key) return;
      this.#older = { key, points: found.points, at: Date.now() };
      this.#onChange(false);
    } catch {
      // The feed says when the service cannot be reached.
    }
  }

  #changed() {
    this.#show();
    this.#onChange(true);
  }

  #show() {
    [...byId("ranges").children].forEach((button, index) => {
      if (index < CHOICES.length) button.setAttribute("aria-pressed", `${!this.zoomed && CHOICES[index][1] === this.seconds}`);
    });
    const zoomed = byId("zoomed");
    zoomed.hidden = !this.zoomed;
    zoomed.setAttribute("aria-pressed", "true");
    zoomed.textContent = this.zoomed ? `${formatTime(this.zoomed[0])} to ${formatTime(this.zoomed[1])} ×` : "";
    const pause = byId("pause");
    pause.setAttribute("aria-pressed", `${this.paused}`);
    pause.textContent = this.paused ? "Resume" : "Pause";
  }
}
