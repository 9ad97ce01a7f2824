"use strict";

// A list whose rows have targets and may hold rows: `rows` are {target, members, ...}, `fill`
// appends a row's cells.  Rows with members open and close.
class TargetList {
  constructor(element, view, fill) {
    this.view = view;
    this.cursor = -1;
    this.rows = [];
    const make = (index) => {
      const row = document.createElement("div");
      row.className = "line row";
      row.dataset.row = index;
      const shown = this.rows[index];
      addSpan(row, shown.members?.length ? (shown.isOpen ? "▾" : "▸") : "", "twist");
      row.style.setProperty("--depth", shown.depth);
      if (shown.members?.length) row.setAttribute("aria-expanded", Boolean(shown.isOpen));
      fill(row, shown);
      for (const cell of row.children) cell.title ||= cell.textContent;
      return row;
    };
    this.list = new Rows(element, make, (row, index) => this.mark(row, index));
    const at = (event) => this.rows[event.target.closest(".line")?.dataset.row];
    element.addEventListener("pointermove", (event) => view.hover(at(event)?.target ?? null));
    element.addEventListener("pointerleave", () => view.hover(null));
    element.addEventListener("click", (event) => {
      const row = at(event);
      if (row?.members?.length && (event.target.closest(".twist") || !row.target)) this.toggle(row);
      else if (row?.target) view.pin(row.target, this);
    });
    element.addEventListener("keydown", (event) => this.key(event));
  }

  show(rows) {
    this.roots = rows;
    this.cursor = -1;
    this.flatten();
  }

  flatten() {
    const flat = (rows, depth) => rows.flatMap((row) => {
      row.depth = depth;
      return [row, ...(row.isOpen ? flat(row.members, depth + 1) : [])];
    });
    this.rows = flat(this.roots, 0);
    this.list.reset(this.rows.length);
  }

  toggle(row) {
    row.isOpen = !row.isOpen;
    this.flatten();
  }

  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const row = this.rows[this.cursor + (step ?? 0)];
    const opens = { ArrowRight: true, ArrowLeft: false }[event.key];
    if (step && row) {
      this.cursor += step;
      this.list.reveal(this.cursor);
      this.view.hover(row.target ?? null);
      this.list.draw();
    } else if (opens !== undefined && row?.members?.length) {
      if (opens === Boolean(row.isOpen)) return; // then the list scrolls sideways
      this.toggle(row);
    } else if (event.key === "Enter" && row?.target) this.view.pin(row.target, this);
    else return;
    event.preventDefault();
  }

  stateOfRow(row, lit) {
    const { target } = row;
    if (!target) return "";
    if (target.kind === "node") return lit.nodes.has(target.index) ? "line" : "";
    if (target.kind === "kernel") return lit.kernels.has(target.index) ? "line" : "";
    if (target.kind === "nodes") return target.index.some((node) => lit.nodes.has(node)) ? "line" : "";
    if (target.kind === "decision") {
      const { target: other } = lit;
      if (other?.kind === "decision") return other.index === target.index ? "line" : "";
      return this.view.links.nodesOf(target).some((node) => lit.nodes.has(node)) ? "line" : "";
    }
    return this.view.links.linesOf(target).some((line) => lit.lines.has(line)) ? "line" : "";
  }

  mark(element, index) {
    const row = this.rows[index];
    element.dataset.pinned = this.stateOfRow(row, this.view.pinned);
    element.dataset.lit = this.stateOfRow(row, this.view.hovered);
    element.classList.toggle("cursor", index === this.cursor);
  }

  revealLit(lit) {
    const lits = [...this.rows.keys()].filter((index) => this.stateOfRow(this.rows[index], lit));
    const first = lits.find((index) => !this.rows[index].isOpen) ?? lits[0];
    if (first !== undefined) this.list.reveal(first);
  }
}
