"use strict";

const MOST_SHOWN = 40;

// Says what a target is and what belongs to it, with buttons that go there.
class Details {
  constructor(element, view) {
    this.element = element;
    this.view = view;
  }

  show(lit) {
    this.element.replaceChildren();
    if (!lit.target) {
      addSpan(this.element, "Point at a line, a kernel or a node to see what belongs to it.", "hint");
      return;
    }
    this.title(lit.target);
    this.lines([...lit.lines].sort((a, b) => a - b));
    this.copies(lit);
    this.kernels([...lit.kernels]);
    this.stacks([...lit.nodes]);
    this.code(lit);
  }

  heading(text) {
    const heading = document.createElement("h3");
    heading.textContent = text;
    this.element.append(heading);
  }

  button(parent, text, action, name = "") {
    const button = document.createElement("button");
    button.type = "button";
    button.className = `link ${name}`;
    button.textContent = text;
    button.addEventListener("click", action);
    parent.append(button);
    return button;
  }

  list(items, add) {
    for (const item of items.slice(0, MOST_SHOWN)) {
      const row = document.createElement("div");
      row.className = "item";
      add(row, item);
      this.element.append(row);
    }
    if (items.length > MOST_SHOWN) addSpan(this.element, `and ${items.length - MOST_SHOWN} more`, "hint");
  }

  title(target) {
    const title = document.createElement("h2");
    title.textContent = this.view.nameOf(target);
    this.element.append(title);
  }

  lines(found) {
    const { lines } = this.view.links;
    if (!found.length) {
      addSpan(this.element, "No line of the program came from it.", "hint");
      return;
    }
    this.heading(found.length === 1 ? "Line of the program" : `${found.length} lines of the program`);
    this.list(found, (row, line) => {
      this.button(row, `${lines.number[line]}`, () => this.view.pin({ kind: "line", index: line }), "number");
      const text = addSpan(row, "", "mono");
      addCode(text, lines.text[line], "wir");
      const facts = [];
      if (lines.kernel[line] !== null || lines.operator[line] !== null) {
        facts.push(`reads ${formatBytes(lines.reads[line])}, writes ${formatBytes(lines.writes[line])}`);
      }
      if (lines.ns[line] !== null) facts.push(`takes ${formatTime(lines.ns[line])}`);
      if (lines.passes[line].length) facts.push(`made, changed or moved by ${lines.passes[line].join(", ")}`);
      if (facts.length) addSpan(row, facts.join("; "), "facts");
    });
    if (found.length === 1) this.flow(found[0]);
  }

  // Earlier and later lines that have the same values.
  flow(line) {
    const { lines, linesOfValue } = this.view.links;
    const names = lines.values[line];
    if (!names.length) return;
    this.heading("Values");
    this.list(names, (row, name) => {
      this.button(row, `%${name}`, () => this.view.pin({ kind: "value", index: name }), "mono");
      for (const other of linesOfValue.get(name).slice(0, 24)) {
        const go = () => this.view.pin({ kind: "line", index: other });
        const button = this.button(row, lines.number[other], go, "number");
        button.title = lines.text[other];
        button.disabled = other === line;
      }
    });
  }

  // Why lines copy: the views that they copy, and the lines that read the copies.
  copies(lit) {
    const { copies, nodes, lines } = this.view.links;
    const found = [...copies.line.keys()].filter((copy) => lit.lines.has(copies.line[copy]));
    if (!found.length) return;
    this.heading(found.length === 1 ? "Why there is a copy" : "Why there are copies");
    this.list(found, (row, copy) => {
      const line = copies.line[copy];
      const does = copies.whole[copy] ? "copies" : "also copies";
      this.button(row, `line ${lines.number[line]}`, () => this.view.pin({ kind: "line", index: line }));
      row.append(copies.views[copy].length ? `${does} views of what it reads, which are not in the order that is wanted: ` : `${does} what it reads `);
      for (const node of copies.views[copy]) {
        const name = nodes.operator[node]?.split(".")[1] ?? "";
        const place = nodes.places[node].length ? ` at ${this.view.placeName(nodes.places[node][0])}` : "";
        this.button(row, `${nodes.name[node]}${name && ` (${name}${place})`}`, () => this.view.pin({ kind: "node", index: node }));
      }
      row.append("for ");
      for (const node of copies.nodes[copy]) {
        this.button(row, nodes.name[node], () => this.view.pin({ kind: "node", index: node }), "mono");
      }
      if (!copies.readers[copy].length) return;
      row.append("; it is read by ");
      for (const reader of copies.readers[copy]) {
        const button = this.button(row, `line ${lines.number[reader]}`, () => this.view.pin({ kind: "line", index: reader }));
        button.title = lines.text[reader];
        addSpan(row, lines.kernel[reader] === null ? lines.operator[reader] ?? "" : `@${this.view.links.kernels.name[lines.kernel[reader]]}`, "facts");
      }
    });
  }

  kernels(found) {
    const { kernels } = this.view.links;
    if (!found.length) return;
    this.heading(found.length === 1 ? "Kernel" : `${found.length} kernels`);
    this.list(found, (row, index) => {
      this.button(row, `@${kernels.name[index]}`, () => this.view.pin({ kind: "kernel", index }), "mono");
      addSpan(row, `${kernels.language[index]}, defined at line ${kernels.begin[index]}`, "facts");
    });
  }

  // Nodes below the places of their stacks, the outermost first.
  stacks(found) {
    const { nodes, links } = { nodes: this.view.links.nodes, links: this.view.links };
    if (!found.length) return;
    this.heading(found.length === 1 ? "Node of the graph" : `${found.length} nodes of the graph`);
    const groups = new Map();
    for (const node of found) {
      const key = JSON.stringify([nodes.places[node], nodes.operator[node], nodes.module[node]]);
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(node);
    }
    let before = [];
    this.list([...groups.values()], (row, group) => {
      const [node] = group;
      const stack = [...nodes.places[node]].reverse();
      stack.forEach((place, depth) => {
        if (before[depth] === place) return;
        before = stack.slice(0, depth);
        const where = addSpan(row, "", "place");
        where.style.paddingLeft = `${depth * 12}px`;
        const key = links.placeKey(place);
        this.button(where, this.view.nameOf({ kind: "place", index: key }), () => this.view.pin({ kind: "place", index: key }));
        const name = links.places.function[place];
        if (name !== null) addSpan(where, `in ${name}`, "facts");
      });
      before = stack;
      const names = addSpan(row, "", "place");
      names.style.paddingLeft = `${stack.length * 12}px`;
      for (const each of group) {
        this.button(names, nodes.name[each], () => this.view.pin({ kind: "node", index: each }), "mono");
      }
      const facts = [nodes.operator[node], nodes.module[node] && `in ${nodes.module[node]}`];
      addSpan(names, facts.filter(Boolean).join(" "), "facts");
    });
  }

  code(lit) {
    const found = this.view.codeOf(lit);
    if (!found.length) return;
    this.heading("Emitted code");
    this.list(found, (row, { text, begin, end }) => {
      const rows = begin === end ? `line ${begin + 1}` : `lines ${begin + 1}–${end + 1}`;
      this.button(row, `${text.name}, ${rows}`, () => this.view.openCode(text, begin));
    });
  }
}
