"use strict";

const MOST_SHOWN = 40;
const MOST_IN_ROW = 24;

// Says what a target is and what belongs to it, with buttons that go there.
class Details {
  constructor(element, view) {
    this.element = element;
    this.view = view;
  }

  show(lit) {
    this.element.replaceChildren();
    this.element.closest(".panel").scrollTop = 0;
    if (!lit.target) {
      addSpan(this.element, "Point at a line, a kernel or a node to see what belongs to it.", "hint");
      return;
    }
    this.title(lit);
    if (lit.target.kind === "place" && !lit.nodes.size) {
      this.withoutOperators(lit.target.index);
      return;
    }
    const found = [...lit.lines].sort((a, b) => a - b);
    const isPeak = this.isPeak(lit.target);
    if (isPeak) new AliveValues(this).show(lit.target.index);
    if (found.length) this.lines(found);
    else this.given(lit);
    this.memory(lit.target);
    this.copies(lit);
    if (lit.target.kind !== "kernel") this.kernels([...lit.kernels]);
    this.nodes(lit);
    if (found.length === 1 && lit.target.kind !== "value") this.flow(found[0]);
    this.parameters(lit);
    this.code(lit);
    if (lit.target.kind === "line" && !isPeak) new AliveValues(this).show(lit.target.index);
  }

  // That a line of the source has no operators, and which lines near it have: those below it in
  // its block, or the nearest.
  withoutOperators(place) {
    const [file, number] = place.split(":").map(Number);
    const { rows } = this.view.texts.source[file];
    const indent = (row) => (rows[row].trim() ? rows[row].search(/\S/) : Infinity);
    let end = number;
    while (end < rows.length && indent(end) > indent(number - 1)) end += 1;
    const linked = this.view.links.linkedRows(file);
    const within = linked.filter((each) => each > number && each <= end);
    const near = [linked.findLast((each) => each < number), linked.find((each) => each > number)].filter(Boolean);
    addSpan(this.element, "No operator that is left in the program came from this line.", "hint");
    this.heading(within.length ? "Lines below it that have operators" : "The nearest lines that have operators");
    this.list(within.length ? within : near, (row, line) => {
      this.goTo(row, { kind: "place", index: `${file}:${line}` }, line, "number");
      addCode(addSpan(row, "", "mono"), rows[line - 1].trim(), this.view.texts.source[file].language);
    });
  }

  isPeak({ kind, index }) {
    const { memories } = this.view.data.memory;
    return kind === "line" && memories.some(({ peakLine }) => peakLine === index);
  }

  // The node that makes a value, which is the first of its nodes.
  madeBy(row, name, words) {
    const [node, ...others] = this.view.links.nodesOf({ kind: "value", index: name });
    if (node === undefined) return;
    row.append(words);
    this.node(row, node);
    if (others.length) addSpan(row, `and ${others.length} more`, "facts");
  }

  heading(text) {
    const heading = document.createElement("h3");
    heading.textContent = text;
    this.element.append(heading);
  }

  sentence(text) {
    return addSpan(this.element, text, "place");
  }

  button(parent, text, action, name = "") {
    const button = addButton(parent, text, action);
    button.className = `link ${name}`;
    return button;
  }

  goTo(parent, target, text, name = "") {
    return this.button(parent, text, () => this.view.pin(target), name);
  }

  list(items, add, within = this.element) {
    addSome(within, items, MOST_SHOWN, (parent, item) => {
      const row = document.createElement("div");
      row.className = "item";
      add(row, item);
      parent.append(row);
    });
  }

  title({ target, nodes }) {
    const title = document.createElement("h2");
    title.textContent = this.view.nameOf(target);
    this.element.append(title);
    const { module } = this.view.links.nodes;
    const modules = joinModules([...nodes].map((node) => module[node]));
    if (modules) addSpan(this.element, `in ${modules}`, "place");
    if (target.kind === "kernel") this.kernelFacts(addSpan(this.element, "", "place"), target.index);
    if (target.kind === "value") new AliveValues(this).describe(target.index);
    if (target.kind !== "decision") return;
    const { decisions } = this.view.data;
    const bytes = decisions.bytes[target.index];
    addSpan(this.element, decisions.subject[target.index], "place mono");
    if (decisions.reason[target.index]) addSpan(this.element, decisions.reason[target.index], "place");
    if (bytes !== null) addSpan(this.element, `${formatBytes(bytes)} of memory traffic`, "hint");
  }

  // What another program made of what no line came from, and gives to this one.
  given({ nodes }) {
    const ofNodes = ([, made]) => made.some((node) => nodes.has(node));
    const found = [...this.view.links.nodesOfValue].filter(ofNodes).map(([name]) => name);
    addSpan(this.element, "No line of the program came from it.", "hint");
    if (!found.length) return;
    this.heading("The program is given what was made of it");
    this.list(found, (row, name) => this.goTo(row, { kind: "value", index: name }, `%${name}`, "mono"));
  }

  // Lines, those of equal layers together.
  lines(found) {
    const { lines } = this.view.links;
    this.heading(found.length === 1 ? "Line of the program" : `${found.length} lines of the program`);
    this.list(groupBy(found, (line) => lines.alike[line]), (row, [line, ...others]) => {
      this.line(row, line);
      if (!others.length) return;
      const modules = this.view.links.modulesOf([line, ...others]);
      const where = modules ? ` in ${modules}` : "";
      addOpener(row, `${others.length + 1} times${where}: ${others.length} more`, (place) => {
        addSome(place, others, MOST_SHOWN, (parent, other) => this.line(addSpan(parent, "", "place"), other));
      });
    });
  }

  line(row, line) {
    const { lines } = this.view.links;
    this.goTo(row, { kind: "line", index: line }, `${lines.number[line]}`, "number");
    addCode(addSpan(row, "", "mono"), lines.text[line], "wir");
    const facts = [];
    if (lines.kernel[line] !== null || lines.operator[line] !== null) {
      facts.push(`reads ${formatBytes(lines.reads[line])}, writes ${formatBytes(lines.writes[line])}${lines.touched[line] ? "" : ", of whole values"}`);
    }
    if (lines.ns[line] !== null) facts.push(`takes ${formatTime(lines.ns[line], lines.resolution_ns[line])}`);
    if (lines.by_frontend[line]) facts.push("reuse chosen by the frontend, not by a pass");
    if (lines.passes[line].length) facts.push(`made, changed or moved by ${lines.passes[line].join(", ")}`);
    if (facts.length) addSpan(row, facts.join("; "), "facts");
  }

  // Earlier and later lines that have the same values.
  flow(line) {
    const { lines, linesOfValue } = this.view.links;
    const names = lines.values[line];
    if (!names.length) return;
    this.heading("Values");
    this.list(names, (row, name) => {
      this.goTo(row, { kind: "value", index: name }, `%${name}`, "mono");
      addSome(row, linesOfValue.get(name), MOST_IN_ROW, (parent, other) => {
        const button = this.goTo(parent, { kind: "line", index: other }, lines.number[other], "number");
        button.title = lines.text[other];
        button.disabled = other === line;
      });
    });
  }

  // What the frontend and passes did to the memory of a value.
  memory({ kind, index }) {
    const { changes } = this.view;
    const found = kind === "value" ? changes.of(index) : [];
    if (!found.length) return;
    this.heading(found.some(({ step }) => step === null) ? "What was done to its memory" : "What passes did to its memory");
    this.list(found, (row, each) => changes.show(row, each));
  }

  // Why there are copies for what is pinned, where there is none, and then the copies that its lines make or read for others.
  copies(lit) {
    const copies = new Copies(this.view.links);
    const { own, others } = copies.of(lit);
    const { made, unmade } = copies.parted(own);
    const { made: counted } = copies.parted(others);
    const show = (row, [copy, ...equal]) => {
      copies.show(this, row, copy);
      if (equal.length) {
        addOpener(row, `and ${equal.length} more for equal layers`, (place) => {
          for (const other of equal) copies.show(this, addSpan(place, "", "place"), other);
        });
      }
    };
    const group = (found) => groupBy(found, (copy) => copies.likeness(copy));
    const section = (title, found) => {
      if (!found.length) return;
      this.heading(title);
      this.list(group(found), show);
    };
    section(`Why there ${made.length === 1 ? "is a copy" : "are copies"}`, made);
    section(`Why there is no ${made.length ? "other " : ""}copy`, unmade);
    if (!counted.length) return;
    const count = counted.length === 1 ? "1 copy" : `${counted.length} copies`;
    addOpener(addSpan(this.element, "", "item"), `its lines make or read ${count} for other nodes`, (place) => this.list(group(counted), show, place));
  }

  // A node with its operator, place and module.
  node(parent, node) {
    const { nodes } = this.view.links;
    const operator = nodes.operator[node]?.split(".")[1];
    const facts = [operator, this.view.whereIs(node)].filter(Boolean).join(", ");
    const [place] = nodes.places[node];
    const source = place === undefined ? "" : this.view.sourceOf(place);
    this.goTo(parent, { kind: "node", index: node }, nodes.name[node] + (facts && ` (${facts})`)).title = source;
  }

  kernels(found) {
    const { kernels } = this.view.links;
    if (!found.length) return;
    this.heading(found.length === 1 ? "Kernel" : `${found.length} kernels`);
    this.list(found, (row, index) => {
      this.goTo(row, { kind: "kernel", index }, `@${kernels.name[index]}`, "mono");
      this.kernelFacts(addSpan(row, "", "facts"), index);
    });
  }

  kernelFacts(row, index) {
    const { kernels } = this.view.links;
    row.append(`kernel ${index + 1} of ${kernels.name.length}, ${kernels.language[index]}, `);
    this.button(row, `defined at line ${kernels.begin[index]}`, () => this.view.openDefinition(index));
  }

  // Nodes; those of one kernel that runs others in turn by these parts of it.
  nodes({ target, nodes, kernels }) {
    const found = [...nodes];
    if (!found.length) return;
    const [kernel] = kernels;
    const isOfKernel = ["line", "lines", "kernel"].includes(target.kind) && kernels.size === 1;
    const parts = isOfKernel ? this.view.links.kernels.parts[kernel] : [];
    this.heading((found.length === 1 ? "Node of the graph" : `${found.length} nodes of the graph`) + (parts.length ? `, in ${parts.length} kernels that run in turn` : ""));
    if (!parts.length) this.stacks(found);
    parts.forEach(([name, own], at) => {
      addSpan(this.element, `${at + 1} of ${parts.length}: ${name}`, "part mono");
      this.stacks(own.filter((node) => nodes.has(node)));
    });
    const listed = new Set(parts.flatMap(([, own]) => own));
    const left = found.filter((node) => !listed.has(node));
    if (!parts.length || !left.length) return;
    addSpan(this.element, "views that these read through", "part");
    this.stacks(left);
  }

  // Nodes below the places of their stacks, the outermost first; those of equal layers together.
  stacks(found) {
    const { links } = this.view;
    const { nodes } = links;
    const stackOf = (node) => [...nodes.places[node]].reverse().map((place) => [links.places.file[place], links.places.line[place]]).flat();
    const stacks = new Map(found.map((node) => [node, stackOf(node)]));
    const sorted = [...found].sort((a, b) => compareNumbers(stacks.get(a), stacks.get(b)));
    const keyOf = (node) => JSON.stringify([nodes.places[node], nodes.operator[node], layerPattern(nodes.module[node])]);
    let before = [];
    this.list(groupBy(sorted, keyOf), (row, group) => {
      const [node] = group;
      const stack = [...nodes.places[node]].reverse();
      stack.forEach((place, depth) => {
        if (before[depth] === place) return;
        before = stack.slice(0, depth);
        const where = addSpan(row, "", "place");
        where.style.paddingLeft = `${depth * 12}px`;
        this.goTo(where, { kind: "place", index: links.placeKey(place) }, this.view.placeName(place));
        const name = links.places.function[place];
        if (name !== null) addSpan(where, `in ${name}`, "facts");
      });
      before = stack;
      const names = addSpan(row, "", "place");
      names.style.paddingLeft = `${stack.length * 12}px`;
      const own = group.filter((each) => nodes.module[each] === nodes.module[node]);
      const others = group.filter((each) => nodes.module[each] !== nodes.module[node]);
      const add = (parent, each) => this.goTo(parent, { kind: "node", index: each }, nodes.name[each], "mono");
      addSome(names, own, MOST_IN_ROW, add);
      const modules = joinModules(group.map((each) => nodes.module[each]));
      addSpan(names, [nodes.operator[node], modules && `in ${modules}`].filter(Boolean).join(" "), "facts");
      if (others.length) addOpener(names, `and ${others.length} more`, (place) => others.forEach((each) => add(place, each)));
    });
  }

  // The parameters that lines use; with equal layers, those of the first.  Of a line that
  // computes other nodes too, those that the modules of what is lit hold.
  parameters({ target, lines, nodes }) {
    const { links } = this.view;
    const { path, tied, lines: users } = this.view.data.parameters;
    const modules = new Set([...nodes].map((node) => links.nodes.module[node] ?? ""));
    const isHeld = (each) => [path[each], ...tied[each]].some((name) => modules.has(name.split(".").slice(0, -1).join(".")));
    const isWhole = (line) => links.lines.nodes[line].every((node) => nodes.has(node));
    const isUsed = (each) => users[each].some((line) => lines.has(line) && (isWhole(line) || isHeld(each)));
    const used = [...path.keys()].filter(isUsed);
    if (!used.length) return;
    const user = ["line", "kernel", "operator"].includes(target.kind) && lines.size === 1 ? "it uses" : "its lines use";
    this.heading(`${used.length === 1 ? "Parameter" : "Parameters"} that ${user}`);
    this.list(groupBy(used, (each) => layerPattern(path[each])), (row, [first, ...equal]) => {
      this.parameter(row, first);
      if (equal.length) addOpener(row, `and ${equal.length} more of equal layers`, (place) => equal.forEach((each) => this.parameter(addSpan(place, "", "place"), each)));
    });
  }

  parameter(row, index) {
    const { name, path, type, tied } = this.view.data.parameters;
    this.goTo(row, { kind: "value", index: name[index] }, path[index], "mono");
    const others = tied[index].length ? `, tied to ${tied[index].join(", ")}` : "";
    addSpan(row, `%${name[index]}: ${type[index]}${others}`, "facts");
  }

  // Each range of each file that lines of what is lit became.
  code(lit) {
    const found = this.view.codeOf(lit);
    if (!found.length) return;
    this.heading("Emitted code");
    this.list(found, (row, { text, ranges }) => {
      addSpan(row, text.name, "name");
      addSome(row, ranges, MOST_IN_ROW, (parent, [begin, end]) => {
        const rows = begin === end ? `line ${begin + 1}` : `lines ${begin + 1}–${end + 1}`;
        this.button(parent, rows, () => this.view.openCode(text, begin));
      });
    });
  }
}
