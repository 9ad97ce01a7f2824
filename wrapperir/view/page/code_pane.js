"use strict";

// A text whose rows have targets.  `show` takes {rows, language, targetAt, number}.
class CodePane {
  constructor(section, view) {
    this.view = view;
    this.section = section;
    this.element = section.querySelector(".listing");
    this.empty = section.querySelector(".empty");
    this.cursor = -1;
    this.found = -1;
    this.text = null;
    this.list = new Rows(this.element, (row) => this.makeRow(row), (row, index) => this.mark(row, index));
    this.element.addEventListener("pointermove", (event) => this.pointAt(event));
    this.element.addEventListener("pointerleave", () => view.hover(null));
    this.element.addEventListener("click", (event) => {
      const row = this.rowOf(event);
      if (row >= 0) this.pin(row);
    });
    this.element.addEventListener("keydown", (event) => this.key(event));
  }

  show(text) {
    if (this.text === text) return;
    this.text = text;
    this.cursor = this.found = -1;
    this.empty.hidden = !text.reason;
    this.empty.textContent = text.reason ?? "";
    this.element.hidden = Boolean(text.reason);
    this.element.scrollTop = this.element.scrollLeft = 0;
    this.list.reset(text.rows.length);
  }

  rowOf(event) {
    const row = event.target.closest(".line");
    return row ? Number(row.dataset.row) : -1;
  }

  pointAt(event) {
    const row = this.rowOf(event);
    this.view.hover(row < 0 ? null : this.text.targetAt(row));
  }

  pin(row) {
    this.cursor = row;
    this.view.pin(this.text.targetAt(row) ?? this.text.unlinkedAt?.(row) ?? null, this);
  }

  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) this.moveTo(Math.min(this.list.count - 1, Math.max(0, this.cursor + step)));
    else if (event.key === "Enter" && this.cursor >= 0) this.pin(this.cursor);
    else if (event.key === "n" || event.key === "p") this.next(event.key === "n" ? 1 : -1);
    else return;
    event.preventDefault();
  }

  // Put the cursor at a row, and light what belongs to it.
  moveTo(row, lights = true) {
    this.cursor = row;
    this.list.reveal(row);
    if (lights) this.view.hover(this.text.targetAt(row));
    this.list.draw();
  }

  // Show and mark a row that was looked for, and scroll sideways until this part of it is in sight.
  find(row, part = "") {
    this.moveTo(row, false);
    this.found = row;
    this.list.draw();
    const code = this.list.shown.get(row)?.querySelector(".code");
    const at = this.text.rows[row].indexOf(part);
    if (!code || !part || at < 0) return;
    const letter = code.getBoundingClientRect().width / this.text.rows[row].length;
    const end = code.offsetLeft + letter * (at + part.length);
    this.element.scrollLeft = end < this.element.clientWidth ? 0 : end - this.element.clientWidth / 2;
  }

  // End what `find` did, but for the place of a pane that the reader is in.
  forget(isRead) {
    if (this.found >= 0 && !isRead) this.element.scrollLeft = 0;
    this.found = -1;
  }

  // Go to the next row that belongs to what is pinned.
  next(step) {
    const lit = this.view.pinned;
    for (let row = this.cursor + step; row >= 0 && row < this.list.count; row += step) {
      if (this.stateOf(row, lit)) {
        this.moveTo(row);
        return;
      }
    }
  }

  // Scroll to the first row that belongs, unless one is in sight; in the source, to the row of most
  // nodes.  Statements of kernels, their definitions and callers count where nothing else belongs.
  revealLit(lit) {
    const rows = [...this.text.rows.keys()];
    const states = rows.map((row) => this.stateOf(row, lit));
    const isKernel = lit.target?.kind === "kernel" && !this.text.hasCalls;
    const order = isKernel ? [["kernel"]] : [["line", "inner"], ["statement"], ["head"]];
    const first = order.find((wanted) => wanted.some((state) => states.includes(state)));
    const found = rows.filter((row) => (first ? first.includes(states[row]) : states[row]));
    const weights = found.map((row) => this.text.weightOf?.(row, lit) ?? 1);
    const wanted = found.filter((_, at) => weights[at] === largestOf(weights));
    if (wanted.length && !wanted.some((row) => this.list.isInSight(row))) this.list.reveal(wanted[0]);
  }

  stateOf(row, lit) {
    return this.text.stateOf(row, lit);
  }

  mark(element, index) {
    const { hovered, pinned } = this.view;
    element.dataset.pinned = this.stateOf(index, pinned);
    element.dataset.lit = this.stateOf(index, hovered);
    element.classList.toggle("cursor", index === this.cursor);
    element.classList.toggle("found", index === this.found);
    const note = this.text.noteAt?.(index, pinned.target ? pinned : hovered) ?? "";
    element.lastElementChild.dataset.note = note;
  }

  makeRow(index) {
    const row = document.createElement("div");
    row.className = this.text.targetAt(index) ? "line linked" : "line";
    row.dataset.row = index;
    addSpan(row, index + 1, "at");
    const code = addSpan(row, "", "code");
    const text = this.text.rows[index];
    const inner = this.text.innerLanguage?.(index);
    const split = inner ? text.indexOf("|") + 1 : 0;
    if (split) code.append(text.slice(0, split));
    addCode(code, text.slice(split), split ? inner : this.text.language);
    return row;
  }
}

// How a row with this target belongs to what is lit: "" if it does not.
function stateOfTarget(target, lit) {
  if (!target) return "";
  if (target.kind === "line") return lit.lines.has(target.index) ? "line" : "";
  if (target.kind === "kernel") return lit.kernels.has(target.index) ? "kernel" : "";
  if (target.kind === "kernels") return target.index.some((kernel) => lit.kernels.has(kernel)) ? "kernel" : "";
  if (target.kernels) {
    // Statements of a kernel: all of it belongs to its calls, and to nodes what computes these.
    const own = target.kernels.filter((kernel) => lit.kernels.has(kernel));
    if (!own.length) return "";
    if (own.some((kernel) => !lit.missing.has(kernel))) return "kernel";
  }
  if (target.kind === "nodes") return target.index.some((node) => lit.nodes.has(node)) ? "line" : "";
  return lit.places.get(target.index) ?? "";
}
