"use strict";

const MOST_FOUND = 60; // in one text
const MOST_LETTERS = 160; // after what is found, on a row that is gone to
const SLICE = 12; // milliseconds of searching at once

// A pattern of a text that ends with a name, which is found as a whole.
function nameIn(wanted) {
  return new RegExp(`${wanted.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}(?!\\w)`, "i");
}

// Says whether a text has what is wanted.  A name, such as %buf2 or @fused, is found as a whole.
function nameMatcher(wanted) {
  if (!/[%@][\w.]+$/.test(wanted)) return (text) => text.toLowerCase().includes(wanted);
  const pattern = nameIn(wanted);
  return (text) => pattern.test(text);
}

// Finds text in all panes.  `texts(wanted)` are {group, rows, go}, with `isText` where rows count from
// 1, `isShown` where a pane shows the text, and `numbers` of rows where these do not count so.
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
    const steps = this.found(wanted);
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

  // Rows of a number after a colon, or those with a text; of a name, those with a longer one
  // where no row has it.
  *found(wanted) {
    const [, file, number] = wanted.match(/^([^\s:%@]*):(\d+)$/) ?? [];
    if (number && this.addNumbered(file, Number(number))) return;
    if (number && !file) return;
    yield* this.steps(nameMatcher(wanted), wanted);
    if (!this.results.childElementCount) yield* this.steps((text) => text.toLowerCase().includes(wanted), wanted);
  }

  // Add the row of a number: of texts with a name, or of those that panes show, and then others.
  addNumbered(file, number) {
    const found = [...this.texts("")].filter(({ group, rows, isText }) => isText && number >= 1 && number <= rows.length && group.toLowerCase().includes(file));
    const make = ({ group, rows, go }) => {
      const title = document.createElement("span");
      title.className = "group";
      title.textContent = group;
      return [title, this.add(rows[number - 1], number, "", () => go(number - 1))];
    };
    const first = found.filter(({ isShown }) => file || isShown);
    const others = found.filter((text) => !first.includes(text));
    this.results.append(...first.flatMap(make));
    if (others.length) this.addMore(others.map((text) => () => make(text)), `line ${number} of ${others.length} more texts`);
    return found.length > 0;
  }

  *steps(has, wanted) {
    for (const { group, rows, go, numbers } of this.texts(wanted)) {
      const more = [];
      let found = 0;
      for (let row = 0; row < rows.length; row += 1) {
        if (row % 500 === 499) yield;
        if (!has(rows[row])) continue;
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

  // A result that is replaced by what `more` make.
  addMore(more, text = `and ${more.length} more`) {
    const button = addButton(this.results, text, () => {
      button.replaceWith(...more.flatMap((add) => add()));
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
    const at = Math.max(0, text.toLowerCase().indexOf(wanted));
    const length = text.toLowerCase().includes(wanted) ? wanted.length : 0;
    const begin = Math.max(0, at - 40);
    button.append((begin ? "…" : "") + text.slice(begin, at).replace(/^\s+/, ""));
    addSpan(button, text.slice(at, at + length), "match");
    button.append(text.slice(at + length, at + MOST_LETTERS) + (text.length > at + MOST_LETTERS ? "…" : ""));
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
