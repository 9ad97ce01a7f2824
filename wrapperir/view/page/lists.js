"use strict";

// What is called, by the bytes that it reads and writes in all calls: what kernels touch at most,
// or else whole values.  Calls of operators
// are together where they are for equal layers.
function callRows(links) {
  const { lines, kernels, operators } = links;
  const total = (calls, bytes) => calls.reduce((sum, line) => sum + bytes[line], 0);
  const ordinal = ({ kind, index }) => (kind === "kernel" ? index + 1 : null);
  const row = (target, name, calls) => ({
    target,
    ordinal: ordinal(target),
    of: kernels.name.length,
    name,
    calls,
    first: calls.length ? lines.number[Math.min(...calls)] : "",
    where: links.modulesOf(calls),
    nodes: new Set(calls.flatMap((line) => lines.nodes[line])).size,
    reads: total(calls, lines.reads),
    writes: total(calls, lines.writes),
    touched: calls.every((line) => lines.touched[line]),
    ns: total(calls, lines.ns),
    resolution: total(calls, lines.resolution_ns),
  });
  const withMembers = (target, name, calls) => ({
    ...row(target, name, calls),
    members: calls.length < 2 ? [] : calls.map((line) => row({ kind: "line", index: line }, `line ${lines.number[line]}`, [line])),
  });
  const called = operators.name.flatMap((name, index) =>
    groupBy(operators.calls[index], (line) => lines.alike[line]).map((calls) => withMembers({ kind: "lines", index: calls }, name, calls)),
  );
  return [
    ...kernels.name.map((name, index) => withMembers({ kind: "kernel", index }, `@${name}`, kernels.calls[index])),
    ...called,
  ];
}

const CALL_COLUMNS = {
  ordinal: { title: "kernel", text: (row) => (row.ordinal ? `${row.ordinal} of ${row.of}` : ""), by: (row) => -(row.ordinal ?? row.of + 1) },
  first: { title: "line", text: (row) => row.first, by: (row) => -row.first },
  calls: { title: "calls", text: (row) => row.calls.length, by: (row) => row.calls.length },
  nodes: { title: "nodes", text: (row) => row.nodes, by: (row) => row.nodes },
  reads: { title: "reads", text: (row) => formatBytes(row.reads), by: (row) => row.reads },
  writes: { title: "writes", text: (row) => formatBytes(row.writes), by: (row) => row.writes },
  extent: { title: "bytes of", text: (row) => (row.touched ? "what is touched" : "whole values"), by: (row) => row.touched },
  time: { title: "time", text: (row) => formatTime(row.ns, row.resolution), by: (row) => row.ns },
  cost: { title: "bytes of all calls", text: () => "", by: (row) => row.reads + row.writes },
  name: { title: "name", text: (row) => row.name },
  where: { title: "modules", text: (row) => row.where },
};

// Make columns as wide as their longest texts; the head, if there is one, scrolls with the rows.
function fitColumns(section, texts) {
  for (const [name, all] of Object.entries(texts)) section.style.setProperty(`--${name}-letters`, largestOf(all.map((text) => text.length)));
  const [head, listing] = [section.querySelector(".head"), section.querySelector(".listing")];
  if (head) listing.addEventListener("scroll", () => (head.scrollLeft = listing.scrollLeft));
}

// A time, or what it is shorter than where no more is known.
function formatTime(time, resolution) {
  const ns = Math.max(time, resolution);
  const sign = time < resolution ? "<" : "";
  return sign + (ns < 1e6 ? `${(ns / 1e3).toPrecision(3)} µs` : `${(ns / 1e6).toPrecision(3)} ms`);
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
  const all = rows.flatMap((row) => [row, ...row.members]);
  fitColumns(section, { name: all.map(({ name }) => name), where: all.map(({ where }) => where) });
  most = largestOf(rows.map(cost.by)) || 1;
  const sortBy = (name) => {
    const { by, text } = name === "cost" ? cost : CALL_COLUMNS[name];
    rows.sort(by ? (a, b) => by(b) - by(a) : (a, b) => text(a).localeCompare(text(b)));
    for (const button of head.querySelectorAll("button")) {
      button.setAttribute("aria-pressed", button.dataset.column === name);
    }
    list.show(rows);
  };
  addSpan(head, "", "twist");
  for (const [name, { title }] of columns) {
    const button = addButton(head, name === "cost" && isTimed ? "time of all calls" : title, () => sortBy(name));
    button.className = `cell ${name}`;
    button.dataset.column = name;
    button.title = button.textContent;
  }
  sortBy(isTimed ? "time" : "cost");
  return list;
}

// Returns what is the same for equal modules: the operators and places of all nodes in them, and
// which module within each is of.
function moduleLikeness(nodes) {
  const within = new Map();
  nodes.module.forEach((path, node) => {
    for (const outer of prefixes(path)) {
      if (!within.has(outer)) within.set(outer, []);
      within.get(outer).push([(path.slice(outer.length)), nodes.operator[node], nodes.places[node]]);
    }
  });
  const found = new Map([...within].map(([path, parts]) => [path, JSON.stringify([layerPattern(path), parts])]));
  return (path) => found.get(path) ?? "";
}

// Nodes below the paths of their modules, in the order of the graph; equal modules below one.
function nodeList(section, view, fileName) {
  const { nodes, places } = view.links;
  const likeness = moduleLikeness(nodes);
  const all = [...nodes.name.keys()];
  const module = (found, name, members) => ({
    name, members, isOpen: members[0].target?.kind === "node",
    count: found.length, target: { kind: "nodes", index: found },
  });
  const own = (found) => module(found, nodes.module[found[0]] || "(no module)", found.map((index) => ({ target: { kind: "node", index } })));
  const rows = groupBy(all, (node) => likeness(nodes.module[node])).map((equal) => {
    const modules = groupBy(equal, (node) => nodes.module[node]).map(own);
    if (modules.length === 1) return modules[0];
    for (const each of modules) each.isOpen = false;
    return module(equal, `${joinModules(equal.map((node) => nodes.module[node]))}, ${modules.length} times`, modules);
  });
  fitColumns(section, { name: nodes.name, operator: nodes.operator.map((name) => name ?? "") });
  const list = new TargetList(section.querySelector(".listing"), view, (element, row) => {
    if (row.target.kind === "nodes") {
      element.classList.add("module");
      addSpan(element, row.name, "cell name");
      addSpan(element, row.count === 1 ? "1 node" : `${row.count} nodes`, "cell operator");
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
