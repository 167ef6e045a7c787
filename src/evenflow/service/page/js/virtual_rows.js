// The rows of a long table: only those in sight exist. All rows have the same height.

import { el, syncChildren } from "./dom.js";

const EXTRA_ROWS = 8;

export class VirtualRows {
  /** `create(item)` makes a row, `update(row, item, index)` fills it; `keyOf` names an item. */
  constructor(table, { rowHeight, keyOf, create, update, onScroll }) {
    Object.assign(this, { table, rowHeight, keyOf, create, update });
    this.scroller = table.closest(".scroll");
    this.total = 0;
    this.itemAt = () => null;
    const columns = table.tHead.rows[0].cells.length;
    const spacer = () => el("tbody", { class: "spacer", "aria-hidden": "true" }, el("tr", {}, el("td", { colspan: columns })));
    this.above = spacer();
    this.below = spacer();
    this.body = table.tBodies[0];
    this.body.before(this.above);
    this.body.after(this.below);
    this.scroller.addEventListener("scroll", () => requestAnimationFrame(() => { this.render(); onScroll?.(); }), { passive: true });
    new ResizeObserver(() => this.render()).observe(this.scroller);
  }

  /** First and last index in sight, with some rows more. */
  range() {
    const first = Math.max(Math.floor(this.scroller.scrollTop / this.rowHeight) - EXTRA_ROWS, 0);
    const seen = Math.ceil((this.scroller.clientHeight || 400) / this.rowHeight) + 2 * EXTRA_ROWS;
    return [Math.min(first, Math.max(this.total - 1, 0)), Math.min(first + seen, this.total)];
  }

  show(total, itemAt) {
    this.total = total;
    this.itemAt = itemAt;
    this.table.setAttribute("aria-rowcount", `${total + 1}`);
    this.render();
  }

  render() {
    const [first, end] = this.range();
    const items = [];
    for (let index = first; index < end; index += 1) {
      const item = this.itemAt(index);
      if (item) items.push({ item, index });
    }
    this.#space(this.above, first);
    this.#space(this.below, this.total - end + (end - first - items.length));
    syncChildren(this.body, items, ({ item }) => this.keyOf(item), ({ item }) => this.create(item), (row, { item, index }) => {
      row.setAttribute("aria-rowindex", `${index + 2}`);
      this.update(row, item, index);
    });
  }

  #space(spacer, rows) {
    spacer.hidden = rows <= 0;
    spacer.rows[0].cells[0].style.height = `${rows * this.rowHeight}px`;
  }
}
