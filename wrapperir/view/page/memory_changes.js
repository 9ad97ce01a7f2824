"use strict";

// What the frontend and passes did to the memory of values: {step, call, value, text, holder, bytes}, in order.
// The frontend has no step.
class MemoryChanges {
  constructor(view, reused, steps) {
    this.view = view;
    this.count = steps.length;
    const made = [{ call: "the frontend", memory: reused, step: null }, ...steps.map((each, step) => ({ ...each, step }))];
    this.all = made.flatMap(({ call, memory, step }) =>
      memory.value.map((value, at) => ({
        step,
        call,
        value,
        kind: memory.kind[at],
        text: memory.text[at],
        bytes: memory.bytes[at],
      })),
    );
  }

  // Fill the list of all of them, which opens at its heading.
  fill(element) {
    const { all } = this;
    element.hidden = !all.length;
    const counts = groupBy(all, ({ kind }) => kind).map((found) => `${found[0].kind} ${found.length}`);
    element.querySelector("summary").textContent = `memory of values: ${counts.join(", ")}`;
    addSome(element.querySelector("div"), all, MOST_CHANGES, (parent, each) => this.show(addSpan(parent, "", "place"), each));
  }

  of(value) {
    return this.all.filter((each) => each.value === value);
  }

  // A row whose names are buttons; that of the pass goes to what it changed there.
  show(row, { step, call, value, text, bytes }) {
    const go = (name) => (addButton(row, `%${name}`, () => this.view.pin({ kind: "value", index: name })).className = "link mono");
    go(value);
    for (const part of text.split(/(%\w+)/)) part.startsWith("%") ? go(part.slice(1)) : row.append(part);
    if (bytes !== null) row.append(`, ${formatBytes(bytes)}`);
    row.append(step === null ? ", chosen by the frontend" : ", by ");
    if (step === null) return;
    addButton(row, call, () => {
      this.view.openPanel("passes");
      this.view.lists.passes.findValue(step, value);
    }).className = "link";
    row.append(` (${step + 1} of ${this.count})`);
  }
}

const MOST_CHANGES = 200;
