"use strict";

const ROW = 18;

// The program's lines.  Only those in sight are elements, so long programs open at once.
class Listing {
  constructor(element) {
    this.element = element;
    this.rows = document.createElement("div");
    this.rows.className = "rows";
    element.append(this.rows);
    this.selected = -1;
    element.addEventListener("scroll", () => this.draw());
  }

  show(version, memory) {
    this.version = version;
    this.memory = memory;
    this.most = largestOf(memory.live) || 1;
    this.selected = -1;
    this.rows.style.height = `${version.texts.length * ROW}px`;
    this.element.scrollTop = Math.max(0, memory.peakLine * ROW - 200);
    this.draw();
  }

  select(line) {
    this.selected = line;
    if (line >= 0) {
      const top = line * ROW;
      const { scrollTop, clientHeight } = this.element;
      if (top < scrollTop || top + ROW > scrollTop + clientHeight) {
        this.element.scrollTop = Math.max(0, top - clientHeight / 2);
      }
    }
    this.draw();
  }

  draw() {
    const { scrollTop, clientHeight } = this.element;
    const first = Math.max(0, Math.floor(scrollTop / ROW) - 5);
    const last = Math.min(this.version.texts.length, first + clientHeight / ROW + 12);
    const shown = [];
    for (let line = first; line < last; line += 1) shown.push(this.row(line));
    this.rows.replaceChildren(...shown);
  }

  row(line) {
    const row = document.createElement("div");
    row.className = "line";
    row.classList.toggle("selected", line === this.selected);
    row.classList.toggle("peak", line === this.memory.peakLine);
    row.dataset.line = line;
    row.style.top = `${line * ROW}px`;
    const bar = document.createElement("span");
    bar.className = "bar";
    const filled = document.createElement("i");
    filled.style.width = `${(60 * this.memory.live[line]) / this.most}px`;
    bar.append(filled);
    const at = document.createElement("span");
    at.className = "at";
    at.textContent = this.version.numbers[line];
    const text = document.createElement("span");
    text.textContent = "  ".repeat(this.version.depths[line]) + this.version.texts[line];
    row.append(bar, at, text);
    return row;
  }
}
