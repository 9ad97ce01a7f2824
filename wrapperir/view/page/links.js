"use strict";

// The name of the tuple that a name like buf1[0] is an element of.
function wholeOf(name) {
  return name.replace(/(\[\d+\])+$/, "");
}

// What belongs to what.  A target is {kind, index}: a line, a kernel, a node, a list of nodes
// (with the `kernels` that compute them there), kernels or lines, an operator, a value by name,
// a decision, a place as "file:line", or a statement as [kernel, row of its source].
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
    this.statements = kernels.name.map((_, kernel) => new Map(kernels.statements[kernel]));
    this.nodesAt = new Map();
    nodes.places.forEach((stack, node) => {
      for (const place of new Set(stack.map((each) => this.placeKey(each)))) {
        if (!this.nodesAt.has(place)) this.nodesAt.set(place, []);
        this.nodesAt.get(place).push(node);
      }
    });
  }

  // Returns the nodes that a row of a kernel's source is for, if that is known.
  nodesOfRow(kernel, row) {
    return this.statements[kernel].get(row);
  }

  placeKey(place) {
    return `${this.places.file[place]}:${this.places.line[place]}`;
  }

  // The nodes at a place, without those of what is called there.
  innerNodes(key) {
    return (this.nodesAt.get(key) ?? []).filter((node) => this.placeKey(this.nodes.places[node][0]) === key);
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
    if (kind === "statement") {
      const nodes = new Set(this.nodesOfRow(...index));
      return this.kernels.calls[index[0]].filter((line) => this.lines.nodes[line].some((node) => nodes.has(node)));
    }
    return this.nodesOf({ kind, index }).flatMap((node) => this.linesOfNode[node]);
  }

  nodesOf({ kind, index }) {
    if (kind === "node") return [index];
    if (kind === "nodes") return index;
    if (kind === "statement") return this.nodesOfRow(...index);
    if (kind === "decision") return this.decisions.nodes[index];
    if (kind === "value") return this.nodesOfValue.get(index) ?? this.nodesOfValue.get(wholeOf(index)) ?? [];
    if (kind === "place") return this.nodesAt.get(index) ?? [];
    return this.linesOf({ kind, index }).flatMap((line) => this.lines.nodes[line]);
  }

  // What a row of a kernel's source is: a statement if it is known what that is for.
  atKernelRow(kernel, row) {
    return this.nodesOfRow(kernel, row)?.length ? { kind: "statement", index: [kernel, row] } : { kind: "kernel", index: kernel };
  }

  // How a row of a kernel's source belongs to what is lit: as a "statement", or as one of the
  // "kernel".  Where none of its statements does, the first row of its own code is the "head".
  stateOfKernelRow(kernel, row, lit) {
    if (!lit.kernels.has(kernel) || (row >= 0 && row < this.kernels.own[kernel])) return "";
    const missing = lit.missing.get(kernel);
    if (missing && row === this.kernels.own[kernel]) return "head";
    if (missing === undefined) return "kernel";
    return this.nodesOfRow(kernel, row)?.some((node) => lit.nodes.has(node)) ? "statement" : "kernel";
  }

  // Says why no statement of a kernel belongs to some nodes; "" if one does, and undefined if
  // its statements are not known and all of them do.
  missingStatement(kernel, nodes) {
    const { statements: { [kernel]: statements } } = this;
    const isAll = (line) => this.lines.nodes[line].every((node) => nodes.has(node));
    if (!statements.size && this.kernels.calls[kernel].every(isAll)) return undefined;
    if (!statements.size) return "which of the statements below belong to it is not known";
    const isFor = (found) => found.some((node) => nodes.has(node));
    return [...statements.values()].some(isFor) ? "" : "no statement below is left of it";
  }

  // All that belongs to a target; `missing` says of kernels that belong by some of their nodes why
  // no statement does, or "" if one does.  Places are "inner" where a node is, "outer" at its callers.
  lit(target) {
    const found = { target, lines: new Set(), nodes: new Set(), kernels: new Set(), missing: new Map(), places: new Map() };
    if (!target) return found;
    found.lines = new Set(this.linesOf(target));
    found.nodes = new Set(this.nodesOf(target));
    if (target.kind === "kernel") found.kernels.add(target.index);
    for (const line of found.lines) {
      if (this.lines.kernel[line] !== null) found.kernels.add(this.lines.kernel[line]);
    }
    if (!["kernel", "kernels", "line", "lines", "operator"].includes(target.kind)) {
      for (const kernel of found.kernels) {
        const missing = this.missingStatement(kernel, found.nodes);
        if (missing !== undefined) found.missing.set(kernel, missing);
      }
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
