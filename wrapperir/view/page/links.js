"use strict";

// The name of the tuple that a name like buf1[0] is an element of.
function wholeOf(name) {
  return name.replace(/(\[\d+\])+$/, "");
}

// What belongs to what.  A target is {kind, index}: a line, a kernel, a node, a list of
// nodes, kernels or lines, an operator, a value by name, a decision, or a place as "file:line".
class Links {
  constructor({ lines, nodes, places, kernels, operators, copies, values, decisions }) {
    Object.assign(this, { lines, nodes, places, kernels, operators, copies, decisions });
    this.nodesOfValue = new Map(values.name.map((name, index) => [name, values.nodes[index]]));
    this.lineAt = new Map(lines.number.map((number, line) => [number, line]));
    this.linesOfNode = nodes.name.map(() => []);
    this.linesOfValue = new Map();
    lines.nodes.forEach((found, line) => found.forEach((node) => this.linesOfNode[node].push(line)));
    lines.values.forEach((names, line) => {
      for (const name of names) {
        if (!this.linesOfValue.has(name)) this.linesOfValue.set(name, []);
        this.linesOfValue.get(name).push(line);
      }
    });
    this.nodesAt = new Map();
    nodes.places.forEach((stack, node) => {
      for (const place of new Set(stack.map((each) => this.placeKey(each)))) {
        if (!this.nodesAt.has(place)) this.nodesAt.set(place, []);
        this.nodesAt.get(place).push(node);
      }
    });
  }

  placeKey(place) {
    return `${this.places.file[place]}:${this.places.line[place]}`;
  }

  // The path of the module of the first node of a line that has one, or null.
  moduleOf(line) {
    const node = this.lines.nodes[line].find((each) => this.nodes.module[each] !== null);
    return node === undefined ? null : this.nodes.module[node];
  }

  // The numbers of the lines of a file that operators came from, in order.
  linkedRows(file) {
    const keys = [...this.nodesAt.keys()].map((key) => key.split(":").map(Number));
    return keys.filter(([of]) => of === file).map(([, line]) => line).sort((a, b) => a - b);
  }

  // The paths of the modules of all nodes of lines; those of equal layers are one.
  modulesOf(lines) {
    return joinModules(lines.flatMap((line) => this.lines.nodes[line]).map((node) => this.nodes.module[node]));
  }

  // What a call calls.
  calledBy(line) {
    const kernel = this.lines.kernel[line];
    return kernel === null ? this.lines.operator[line] ?? "" : `@${this.kernels.name[kernel]}`;
  }

  // The target of a row of the program's text, or null.
  atRow(number) {
    if (this.lineAt.has(number)) return { kind: "line", index: this.lineAt.get(number) };
    const kernel = this.kernels.begin.findLastIndex((begin) => begin <= number);
    if (kernel >= 0 && number <= this.kernels.end[kernel]) return { kind: "kernel", index: kernel };
    return null;
  }

  linesOf({ kind, index }) {
    if (kind === "line") return [index];
    if (kind === "lines") return index;
    if (kind === "kernel") return this.kernels.calls[index];
    if (kind === "kernels") return index.flatMap((kernel) => this.kernels.calls[kernel]);
    if (kind === "operator") return this.operators.calls[index];
    if (kind === "value") return this.linesOfValue.get(index) ?? this.linesOfValue.get(wholeOf(index)) ?? [];
    return this.nodesOf({ kind, index }).flatMap((node) => this.linesOfNode[node]);
  }

  nodesOf({ kind, index }) {
    if (kind === "node") return [index];
    if (kind === "nodes") return index;
    if (kind === "decision") return this.decisions.nodes[index];
    if (kind === "value") return this.nodesOfValue.get(index) ?? this.nodesOfValue.get(wholeOf(index)) ?? [];
    if (kind === "place") return this.nodesAt.get(index) ?? [];
    return this.linesOf({ kind, index }).flatMap((line) => this.lines.nodes[line]);
  }

  // All that belongs to a target; places are "inner" where a node is, "outer" at its callers.
  lit(target) {
    const found = { target, lines: new Set(), nodes: new Set(), kernels: new Set(), places: new Map() };
    if (!target) return found;
    found.lines = new Set(this.linesOf(target));
    found.nodes = new Set(this.nodesOf(target));
    if (target.kind === "kernel") found.kernels.add(target.index);
    for (const line of found.lines) {
      if (this.lines.kernel[line] !== null) found.kernels.add(this.lines.kernel[line]);
    }
    for (const node of found.nodes) {
      this.nodes.places[node].forEach((place, depth) => {
        const key = this.placeKey(place);
        if (depth === 0 || !found.places.has(key)) found.places.set(key, depth === 0 ? "inner" : "outer");
      });
    }
    if (target.kind === "place") found.places.set(target.index, "inner");
    return found;
  }
}
