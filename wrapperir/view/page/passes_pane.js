"use strict";

const MOST_VALUES = 24;

// What each pass changed, chosen by a slider.
class PassesPane {
  constructor(section, view, steps) {
    this.view = view;
    this.steps = steps;
    this.slider = section.querySelector("input");
    this.summary = section.querySelector("#step");
    this.values = section.querySelector("#step-values");
    this.list = new Rows(section.querySelector(".listing"), (index) => this.row(index), (row, index) => this.mark(row, index));
    this.found = -1;
    if (!steps.length) return;
    this.slider.max = steps.length;
    this.slider.addEventListener("input", () => this.show(Number(this.slider.value) - 1));
    const order = section.querySelector("#steps");
    steps.forEach((step, index) => {
      const button = addButton(order, step.call, () => this.show(index));
      button.classList.toggle("idle", !step.added && !step.removed);
    });
    this.buttons = [...order.children];
    this.showRemovals(section.querySelector("#removals"));
    view.changes.fill(section.querySelector("#memory-changes"));
    section.querySelector(".listing").addEventListener("click", (event) => {
      const row = event.target.closest(".line");
      const target = row && this.targetAt(Number(row.dataset.row));
      if (target) view.pin(target, this);
    });
    this.show(Math.max(0, steps.findIndex(({ added, removed }) => added || removed)));
  }

  show(index) {
    this.at = index;
    this.found = -1;
    this.slider.value = index + 1;
    this.buttons.forEach((button, each) => button.setAttribute("aria-pressed", each === index));
    this.buttons[index].scrollIntoView({ block: "nearest", inline: "nearest" });
    const { call, added, removed, lines, peaks } = this.steps[index];
    const before = new Map(this.steps[index - 1]?.peaks ?? []);
    const shown = peaks.map(([name, peak]) => {
      const old = before.get(name);
      const change = old === undefined || old === peak ? "" : `${formatBytes(old)} → `;
      return `${name} peak ${change}${formatBytes(peak)}`;
    });
    const changes = added || removed ? `+${added} −${removed}` : "nothing changed";
    const facts = [`${index + 1} of ${this.steps.length}: ${call}`, changes, `${lines} lines`, ...shown];
    this.summary.textContent = facts.join("  ·  ");
    this.showValues(this.steps[index]);
    this.list.element.scrollTop = 0;
    this.list.reset(this.steps[index].rows.text.length);
  }

  // Which passes removed values, with buttons that go to them.
  showRemovals(element) {
    const removing = [...this.steps.keys()].filter((index) => this.steps[index].removedValues.length);
    element.append(removing.length ? "values were removed by " : "no pass removed a value");
    removing.forEach((index, at) => {
      const { call, removedValues } = this.steps[index];
      if (at) element.append(", ");
      addButton(element, `${call}: ${removedValues.length}`, () => this.show(index)).className = "link";
    });
  }

  // The values that only the program before or after the pass has, with buttons that go to them.
  showValues({ added, removed, removedValues, addedValues }) {
    this.values.replaceChildren();
    if ((added || removed) && !removedValues.length) addSpan(this.values, "removed no value", "facts");
    for (const [title, names] of [["removed", removedValues], ["added", addedValues]]) {
      if (!names.length) continue;
      addSpan(this.values, `${title} ${names.length === 1 ? "1 value" : `${names.length} values`}:`, "facts");
      addSome(this.values, names, MOST_VALUES, (parent, name) => {
        addButton(parent, `%${name}`, () => this.findValue(this.at, name)).className = "link mono";
      });
    }
  }

  // Show the first changed row that has a value: as it is after the pass, if that still has it.
  findValue(index, name) {
    const { rows, removedValues } = this.steps[index];
    const has = nameMatcher(`%${name}`);
    const other = removedValues.includes(name) ? "new" : "old";
    const isChange = (at) => rows[other][at] === null && (rows.old[at] !== null || rows.new[at] !== null);
    const found = rows.text.findIndex((text, at) => isChange(at) && has(text));
    if (found >= 0) this.find(index, found);
    else this.show(index);
  }

  // Show a row that was looked for, and mark it.
  find(index, row) {
    this.show(index);
    this.found = row;
    this.list.reveal(row);
    this.list.draw();
  }

  mark(element, index) {
    element.classList.toggle("found", index === this.found);
    for (const [name, lit] of [["pinned", this.view.pinned], ["lit", this.view.hovered]]) {
      const target = this.targetAt(index);
      element.dataset[name] = target?.kind === "line" || target?.kind === "kernel" ? stateOfTarget(target, lit) : "";
    }
  }

  // The line, if the program that is shown has it, or the first value that it still has.
  targetAt(index) {
    const { rows } = this.steps[this.at];
    const { links } = this.view;
    const number = rows.new[index];
    if (this.at === this.steps.length - 1 && number !== null) return links.atRow(number);
    const names = rows.text[index].match(/%[A-Za-z_]\w*/g) ?? [];
    const known = names.map((name) => name.slice(1)).find((name) => links.linesOfValue.has(name));
    return known ? { kind: "value", index: known } : null;
  }

  row(index) {
    const { rows } = this.steps[this.at];
    const [old, fresh] = [rows.old[index], rows.new[index]];
    const row = document.createElement("div");
    row.className = "line";
    row.dataset.row = index;
    row.dataset.change = old === null && fresh === null ? "gap" : old === null ? "+" : fresh === null ? "-" : "";
    addSpan(row, old ?? "", "at");
    addSpan(row, fresh ?? "", "at");
    addSpan(row, row.dataset.change === "gap" ? "⋯" : row.dataset.change, "sign");
    addCode(addSpan(row, "", "code"), rows.text[index], "wir");
    return row;
  }

  revealLit() {}
}
