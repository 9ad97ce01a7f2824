"use strict";

const ROW = 18;
const BEYOND = 12; // rows kept above and below those in sight

// A list of rows of one height.  Only those in sight are elements, so that long lists open
// and scroll at once.  `makeRow(index)` returns an element, `markRow(element, index)` sets
// what changes on one that is kept.
class Rows {
  constructor(element, makeRow, markRow = () => {}) {
    this.element = element;
    this.makeRow = makeRow;
    this.markRow = markRow;
    this.count = 0;
    this.shown = new Map();
    this.rows = document.createElement("div");
    this.rows.className = "rows";
    element.append(this.rows);
    element.addEventListener("scroll", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(element);
  }

  // Show `count` rows, all made anew.
  reset(count) {
    this.count = count;
    this.shown.clear();
    this.rows.replaceChildren();
    this.rows.style.height = `${count * ROW}px`;
    this.draw();
  }

  isInSight(index) {
    const { scrollTop, clientHeight } = this.element;
    return index * ROW >= scrollTop && (index + 1) * ROW <= scrollTop + clientHeight;
  }

  reveal(index) {
    if (this.isInSight(index)) return;
    this.element.scrollTop = Math.max(0, index * ROW - this.element.clientHeight / 2);
    this.draw(); // not only when the browser says that it has scrolled
  }

  draw() {
    const { scrollTop, clientHeight } = this.element;
    const first = Math.max(0, Math.floor(scrollTop / ROW) - BEYOND);
    const last = Math.min(this.count, Math.ceil((scrollTop + clientHeight) / ROW) + BEYOND);
    for (const [index, row] of this.shown) {
      if (index < first || index >= last) {
        row.remove();
        this.shown.delete(index);
      }
    }
    for (let index = first; index < last; index += 1) {
      let row = this.shown.get(index);
      if (!row) {
        row = this.makeRow(index);
        row.style.top = `${index * ROW}px`;
        this.shown.set(index, row);
        this.rows.append(row);
      }
      this.markRow(row, index);
    }
  }
}

function addSpan(parent, text, name) {
  const element = document.createElement("span");
  element.className = name;
  element.textContent = text;
  parent.append(element);
  return element;
}
