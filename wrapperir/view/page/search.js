"use strict";

const MOST_FOUND = 60; // in one text
const SLICE = 12; // milliseconds of searching at once

// Finds text in all panes.  `texts()` are {group, rows, go}, and `numbers` of rows where these
// do not count from 1.
class Search {
  constructor(input, results, texts) {
    this.input = input;
    this.results = results;
    this.texts = texts;
    this.run = 0;
    this.chosen = -1;
    input.addEventListener("input", () => this.start());
    input.addEventListener("focus", () => this.input.value && this.open(true));
    input.addEventListener("keydown", (event) => this.key(event));
    document.addEventListener("pointerdown", (event) => {
      if (!event.target.closest("#finder")) this.open(false);
    });
  }

  open(is) {
    this.results.hidden = !is;
    this.input.setAttribute("aria-expanded", is);
  }

  start() {
    const run = (this.run += 1);
    const wanted = this.input.value.toLowerCase();
    this.results.replaceChildren();
    this.chosen = -1;
    this.open(Boolean(wanted));
    if (!wanted) return;
    const steps = this.steps(wanted);
    const work = () => {
      if (run !== this.run) return;
      const until = performance.now() + SLICE;
      while (performance.now() < until) {
        if (steps.next().done) {
          if (!this.results.childElementCount) addSpan(this.results, "Nothing found.", "hint");
          return;
        }
      }
      setTimeout(work);
    };
    work();
  }

  *steps(wanted) {
    for (const { group, rows, go, numbers } of this.texts()) {
      const more = [];
      let found = 0;
      for (let row = 0; row < rows.length; row += 1) {
        if (row % 500 === 499) yield;
        if (!rows[row].toLowerCase().includes(wanted)) continue;
        found += 1;
        if (found === 1) addSpan(this.results, group, "group");
        const add = () => this.add(rows[row], numbers ? numbers(row) : row + 1, wanted, () => go(row));
        if (found <= MOST_FOUND) this.results.append(add());
        else more.push(add);
      }
      if (more.length) this.addMore(more);
      yield;
    }
  }

  // A result that is replaced by the results that `more` makes.
  addMore(more) {
    const button = addButton(this.results, `and ${more.length} more`, () => {
      button.replaceWith(...more.map((add) => add()));
      this.input.focus();
    });
    button.className = "result hint";
  }

  add(text, number, wanted, go) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "result mono";
    button.setAttribute("role", "option");
    addSpan(button, number, "at");
    const at = text.toLowerCase().indexOf(wanted);
    const begin = Math.max(0, at - 40);
    button.append((begin ? "…" : "") + text.slice(begin, at).replace(/^\s+/, ""));
    addSpan(button, text.slice(at, at + wanted.length), "match");
    button.append(text.slice(at + wanted.length, at + 160));
    button.addEventListener("click", () => {
      this.open(false);
      go();
    });
    return button;
  }

  key(event) {
    const found = [...this.results.querySelectorAll(".result")];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") {
      this.open(false);
      this.input.blur();
    } else if (event.key === "Enter") {
      found[Math.max(0, this.chosen)]?.click();
    } else if (step && found.length) {
      found[this.chosen]?.classList.remove("chosen");
      this.chosen = (this.chosen + step + found.length) % found.length;
      found[this.chosen].classList.add("chosen");
      found[this.chosen].scrollIntoView({ block: "nearest" });
      this.open(true);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
