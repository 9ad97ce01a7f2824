"use strict";

// The program's lines, each with a bar of its live bytes.
class Listing {
  constructor(element) {
    this.selected = -1;
    const mark = (row, line) => {
      row.classList.toggle("selected", line === this.selected);
      row.classList.toggle("peak", line === this.memory.peakLine);
    };
    this.rows = new Rows(element, (line) => this.row(line), mark);
  }

  show(version, memory) {
    this.version = version;
    this.memory = memory;
    this.most = largestOf(memory.live) || 1;
    this.selected = -1;
    this.rows.reset(version.texts.length);
    this.rows.reveal(memory.peakLine);
  }

  select(line) {
    this.selected = line;
    if (line >= 0) this.rows.reveal(line);
    this.rows.draw();
  }

  row(line) {
    const row = document.createElement("div");
    row.className = "line";
    row.dataset.line = line;
    const bar = addSpan(row, "", "bar");
    const filled = document.createElement("i");
    filled.style.width = `${(60 * this.memory.live[line]) / this.most}px`;
    bar.append(filled);
    addSpan(row, this.version.numbers[line], "at");
    addSpan(row, "  ".repeat(this.version.depths[line]) + this.version.texts[line], "text");
    return row;
  }
}
