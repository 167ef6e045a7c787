// The state of the run: complete on connect, then updated by each batch.

const DELTA_FIELDS = ["workers", "queries", "streams", "hot_keys", "correlation", "problems", "tenants"];
const MAX_POINTS = 900;
const MAX_DECISIONS = 300;
const RECONNECT_ALARM_MS = 4000;

export class StateFeed {
  constructor(onState, onConnection) {
    this.state = null;
    this.onState = onState;
    this.onConnection = onConnection;
    this.lostTimer = null;
  }

  open() {
    this.source = new EventSource("api/events");
    this.source.addEventListener("state", (event) => this.#replaceState(JSON.parse(event.data)));
    this.source.addEventListener("batch", (event) => this.#applyDelta(JSON.parse(event.data)));
    this.source.addEventListener("open", () => this.#onOpen());
    this.source.addEventListener("error", () => this.#onError());
  }

  #onOpen() {
    clearTimeout(this.lostTimer);
    this.lostTimer = null;
    this.onConnection(true);
  }

  #onError() {
    // No alarm for a short break: the browser reconnects by itself.
    this.lostTimer ??= setTimeout(() => this.onConnection(false), RECONNECT_ALARM_MS);
    if (this.source.readyState === EventSource.CLOSED) {
      setTimeout(() => this.open(), RECONNECT_ALARM_MS);
    }
  }

  #replaceState(state) {
    this.state = state;
    this.onState(state, { decisions: [], fresh: true });
  }

  #applyDelta(delta) {
    const state = this.state;
    if (!state) return;
    state.summary = delta.summary;
    for (const name of DELTA_FIELDS) if (delta[name]) state[name] = delta[name];
    for (const point of delta.points) addPoint(state.points, point);
    state.points.splice(0, state.points.length - MAX_POINTS);
    const updated = new Map(delta.decisions.map((decision) => [decision.number, decision]));
    const fresh = delta.decisions.filter((decision) => !state.decisions.some((old) => old.number === decision.number));
    state.decisions = state.decisions.map((old) => updated.get(old.number) ?? old);
    state.decisions.unshift(...fresh.sort((a, b) => b.number - a.number));
    state.decisions.splice(MAX_DECISIONS);
    this.onState(state, { decisions: fresh, fresh: false });
  }
}

/** Add a batch, or replace it: Spark reports on a batch a moment after its end. */
function addPoint(points, point) {
  const index = points.findLastIndex((old) => old.batch <= point.batch);
  if (index >= 0 && points[index].batch === point.batch) points[index] = point;
  else points.splice(index + 1, 0, point);
}
