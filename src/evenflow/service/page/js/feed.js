// The state of the run: whole on connecting, then changed by each batch.

const PARTS = ["workers", "queries", "streams", "hot_keys", "correlation"];
const KEPT_POINTS = 900;
const LOST_AFTER_MS = 4000;

export class Feed {
  constructor(onState, onConnection) {
    this.state = null;
    this.onState = onState;
    this.onConnection = onConnection;
    this.lost = null;
  }

  open() {
    this.source = new EventSource("api/events");
    this.source.addEventListener("state", (event) => this.#take(JSON.parse(event.data)));
    this.source.addEventListener("batch", (event) => this.#change(JSON.parse(event.data)));
    this.source.addEventListener("open", () => this.#connected());
    this.source.addEventListener("error", () => this.#broken());
  }

  #connected() {
    clearTimeout(this.lost);
    this.lost = null;
    this.onConnection(true);
  }

  #broken() {
    // A short break is not worth an alarm: the browser comes back by itself.
    this.lost ??= setTimeout(() => this.onConnection(false), LOST_AFTER_MS);
    if (this.source.readyState === EventSource.CLOSED) {
      setTimeout(() => this.open(), LOST_AFTER_MS);
    }
  }

  #take(state) {
    this.state = state;
    this.onState(state, { decisions: [], fresh: true });
  }

  #change(delta) {
    const state = this.state;
    if (!state) return;
    state.summary = delta.summary;
    for (const part of PARTS) if (delta[part]) state[part] = delta[part];
    state.points.push(...delta.points);
    state.points.splice(0, state.points.length - KEPT_POINTS);
    const better = new Map(delta.decisions.map((one) => [one.number, one]));
    const fresh = delta.decisions.filter((one) => !state.decisions.some((old) => old.number === one.number));
    state.decisions = state.decisions.map((old) => better.get(old.number) ?? old);
    state.decisions.unshift(...fresh.sort((a, b) => b.number - a.number));
    state.decisions.splice(300);
    this.onState(state, { decisions: fresh, fresh: false });
  }
}
