// Addresses that can be shared: #query/NAME, #key/QUERY/KEY, #decision/120, each with ?time=.

export const linkTo = (...parts) => `#${parts.map((part) => encodeURIComponent(part)).join("/")}`;

/** The parts and the time of an address; parts that cannot be decoded are left out. */
export function parseHash(hash) {
  const [path, search = ""] = hash.replace(/^#/, "").split("?");
  try {
    return { parts: path.split("/").filter(Boolean).map(decodeURIComponent), time: new URLSearchParams(search).get("time") ?? "" };
  } catch {
    return { parts: [], time: "" };
  }
}

const withTime = (path, time) => (time ? `${path || "#"}?time=${time}` : path);

export class Router {
  /** `show(parts, time)` is called for the first address and for each one that follows. */
  constructor(show) {
    this.show = show;
    this.current = "";
    window.addEventListener("hashchange", () => this.follow());
  }

  follow() {
    const { parts, time } = parseHash(location.hash);
    if (parts[0] === "main") return; // the skip link
    this.current = parts.length ? linkTo(...parts) : "";
    // A link within the page has no time: the one that is shown stays.
    if (!time && this.time) this.setTime(this.time);
    this.show(parts, time || this.time || "");
  }

  /** Keep the time in the address, without a new entry in the history. */
  setTime(time) {
    this.time = time;
    history.replaceState(null, "", withTime(this.current, time) || location.pathname);
  }

  open(...parts) {
    location.hash = withTime(linkTo(...parts), this.time);
  }

  /** Leave what is open: back to the overview. */
  close() {
    if (!this.current) return;
    this.current = "";
    history.pushState(null, "", withTime("", this.time) || location.pathname);
  }
}
