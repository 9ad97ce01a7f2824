"use strict";

// What is called, by the bytes that it reads and writes in all calls.
function callRows(links) {
  const { lines, kernels, operators } = links;
  const total = (calls, bytes) => calls.reduce((sum, line) => sum + bytes[line], 0);
  const row = (target, name, calls) => ({
    target,
    name,
    calls,
    nodes: new Set(calls.flatMap((line) => lines.nodes[line])).size,
    reads: total(calls, lines.reads),
    writes: total(calls, lines.writes),
    ns: total(calls, lines.ns),
  });
  return [
    ...kernels.name.map((name, index) => row({ kind: "kernel", index }, `@${name}`, kernels.calls[index])),
    ...operators.name.map((name, index) => row({ kind: "operator", index }, name, operators.calls[index])),
  ];
}

const CALL_COLUMNS = {
  name: { title: "kernel or operator", text: (row) => row.name },
  calls: { title: "calls", text: (row) => row.calls.length, by: (row) => row.calls.length },
  nodes: { title: "nodes", text: (row) => row.nodes, by: (row) => row.nodes },
  reads: { title: "reads", text: (row) => formatBytes(row.reads), by: (row) => row.reads },
  writes: { title: "writes", text: (row) => formatBytes(row.writes), by: (row) => row.writes },
  time: { title: "time", text: (row) => formatTime(row.ns), by: (row) => row.ns },
  cost: { title: "bytes of all calls", text: () => "", by: (row) => row.reads + row.writes },
};

function formatTime(ns) {
  return ns < 1e6 ? `${(ns / 1e3).toPrecision(3)} µs` : `${(ns / 1e6).toPrecision(3)} ms`;
}

// A list whose rows have targets: `rows` are {target, ...}, `fill` appends a row's cells.
class TargetList {
  constructor(element, view, fill) {
    this.view = view;
    this.cursor = -1;
    this.rows = [];
    const make = (index) => {
      const row = document.createElement("div");
      row.className = "line row";
      row.dataset.row = index;
      fill(row, this.rows[index]);
      return row;
    };
    this.list = new Rows(element, make, (row, index) => this.mark(row, index));
    const at = (event) => this.rows[event.target.closest(".line")?.dataset.row];
    element.addEventListener("pointermove", (event) => view.hover(at(event)?.target ?? null));
    element.addEventListener("pointerleave", () => view.hover(null));
    element.addEventListener("click", (event) => at(event)?.target && view.pin(at(event).target, this));
    element.addEventListener("keydown", (event) => this.key(event));
  }

  show(rows) {
    this.rows = rows;
    this.cursor = -1;
    this.list.reset(rows.length);
  }

  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const row = this.rows[this.cursor + (step ?? 0)];
    if (step && row) {
      this.cursor += step;
      this.list.reveal(this.cursor);
      this.view.hover(row.target);
      this.list.draw();
    } else if (event.key === "Enter" && row?.target) this.view.pin(row.target, this);
    else return;
    event.preventDefault();
  }

  stateOf(index, lit) {
    const { target } = this.rows[index];
    if (!target) return "";
    if (target.kind === "node") return lit.nodes.has(target.index) ? "line" : "";
    if (target.kind === "kernel") return lit.kernels.has(target.index) ? "line" : "";
    if (target.kind === "nodes") return target.index.some((node) => lit.nodes.has(node)) ? "line" : "";
    return this.view.links.linesOf(target).some((line) => lit.lines.has(line)) ? "line" : "";
  }

  mark(row, index) {
    row.dataset.pinned = this.stateOf(index, this.view.pinned);
    row.dataset.lit = this.stateOf(index, this.view.hovered);
    row.classList.toggle("cursor", index === this.cursor);
  }

  revealLit(lit) {
    const first = this.rows.findIndex((_, index) => this.stateOf(index, lit));
    if (first >= 0) this.list.reveal(first);
  }
}

function kernelList(section, view) {
  const head = section.querySelector(".head");
  let most = 1;
  const isTimed = view.links.lines.ns.some((ns) => ns !== null);
  const columns = Object.entries(CALL_COLUMNS).filter(([name]) => isTimed || name !== "time");
  const cost = isTimed ? CALL_COLUMNS.time : CALL_COLUMNS.cost;
  const list = new TargetList(section.querySelector(".listing"), view, (element, row) => {
    for (const [name, column] of columns) {
      const cell = addSpan(element, column.text(row), `cell ${name}`);
      if (name !== "cost") continue;
      const bar = addSpan(cell, "", "cost-bar");
      bar.style.width = `${(100 * cost.by(row)) / most}%`;
    }
  });
  const rows = callRows(view.links);
  most = largestOf(rows.map(cost.by)) || 1;
  const sortBy = (name) => {
    const { by, text } = name === "cost" ? cost : CALL_COLUMNS[name];
    rows.sort(by ? (a, b) => by(b) - by(a) : (a, b) => text(a).localeCompare(text(b)));
    for (const button of head.children) {
      button.setAttribute("aria-pressed", button.dataset.column === name);
    }
    list.show(rows);
  };
  for (const [name, { title }] of columns) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = `cell ${name}`;
    button.dataset.column = name;
    button.textContent = name === "cost" && isTimed ? "time of all calls" : title;
    button.addEventListener("click", () => sortBy(name));
    head.append(button);
  }
  sortBy(isTimed ? "time" : "cost");
  return list;
}

// Nodes below the paths of their modules, in the order of the graph.
function graphList(section, view, fileName) {
  const { nodes, places } = view.links;
  const modules = new Map();
  nodes.name.forEach((_, node) => {
    const module = nodes.module[node] ?? "";
    if (!modules.has(module)) modules.set(module, []);
    modules.get(module).push(node);
  });
  const rows = [...modules].flatMap(([module, found]) => [
    { module: module || "(no module)", count: found.length },
    ...found.map((index) => ({ target: { kind: "node", index } })),
  ]);
  const list = new TargetList(section.querySelector(".listing"), view, (element, row) => {
    if (!row.target) {
      element.classList.add("module");
      addSpan(element, row.module, "cell name");
      addSpan(element, row.count === 1 ? "1 node" : `${row.count} nodes`, "cell operator");
      addSpan(element, "", "cell where");
      return;
    }
    const node = row.target.index;
    const [place] = nodes.places[node];
    addSpan(element, nodes.name[node], "cell name");
    addSpan(element, nodes.operator[node] ?? "", "cell operator");
    const where = place === undefined ? "" : `${fileName(places.file[place])}:${places.line[place]}`;
    addSpan(element, where, "cell where");
  });
  list.show(rows);
  return list;
}
