"use strict";

const FOLDED = 30; // boxes that modules are opened up to at first
const MOST_BOXES = 300; // beyond, only the boxes around what is pinned are drawn
const AROUND = 3; // steps from what is pinned
const BOX = { width: 188, height: 36 };
const ROOM = 8; // above and below a box, for the names of modules
const LABEL = 24; // letters of a box
const TITLE = 20; // between the outlines of modules in each other, for their names
const LETTER = 7; // the width of a letter of those

// Calls and the values that flow between them, in boxes for modules that open and close.
class GraphDrawing {
  constructor(element, view) {
    this.element = element;
    this.view = view;
    const { links } = view;
    const { lines } = links;
    this.calls = [...lines.number.keys()].filter((line) => lines.kernel[line] !== null || lines.operator[line] !== null);
    const modules = new Map(this.calls.map((line) => [line, prefixes(links.moduleOf(line))]));
    const shared = new Set(groupBy([...modules.values()].flat(), (path) => path).filter((each) => each.length > 1).map(([path]) => path));
    this.paths = new Map(this.calls.map((line) => [line, modules.get(line).filter((path) => shared.has(path))]));
    this.open = new Set();
    this.openSome();
    this.boxes = [];
    this.edges = [];
    this.canvas = new MovingCanvas(element);
    new ResizeObserver(() => this.show()).observe(element);
  }

  // Draw what has not been drawn, if there is room, and show what is pinned, or the first call.
  show() {
    if (this.isDrawn) return;
    this.draw();
    this.mark();
    if (this.boxes.length) this.reveal(this.boxOfLit(this.view.pinned) ?? this.boxes[0]);
  }

  reveal({ at }) {
    this.canvas.reveal({ ...BOX, x: at.x, y: at.y });
  }

  boxOfLit({ lines }) {
    return this.boxes.find(({ at, calls }) => at && calls.some((line) => lines.has(line)));
  }

  // Open the outermost modules, and those in them, as long as few boxes are drawn.
  openSome() {
    const all = new Set([...this.paths.values()].flat());
    const levels = groupBy([...all], (path) => path.split(".").length);
    for (const level of levels.sort((a, b) => a[0].split(".").length - b[0].split(".").length)) {
      const before = new Set(this.open);
      for (const path of level) this.open.add(path);
      if (new Set(this.calls.map((line) => this.boxOf(line))).size > FOLDED) {
        this.open = before;
        return;
      }
    }
  }

  // The outermost module of a call that is closed, or the call.
  boxOf(line) {
    return this.paths.get(line).find((path) => !this.open.has(path)) ?? line;
  }

  toggle(path, isOpen) {
    if (isOpen) this.open.add(path);
    else for (const each of this.open) if (each === path || each.startsWith(`${path}.`)) this.open.delete(each);
    this.draw();
    this.mark();
  }

  graph() {
    const boxes = new Map();
    for (const line of this.calls) {
      const key = this.boxOf(line);
      if (!boxes.has(key)) boxes.set(key, { key, calls: [], next: new Map(), before: new Set() });
      boxes.get(key).calls.push(line);
    }
    const { sources } = this.view.links.lines;
    for (const box of boxes.values()) {
      for (const [source, value] of box.calls.flatMap((line) => sources[line])) {
        const from = this.paths.has(source) && boxes.get(this.boxOf(source));
        if (!from || from === box) continue;
        if (!from.next.has(box)) from.next.set(box, new Set());
        from.next.get(box).add(value);
        box.before.add(from);
      }
    }
    return [...boxes.values()];
  }

  // The boxes within some steps of what is pinned.
  around(boxes) {
    const { lines } = this.view.pinned;
    let last = boxes.filter(({ calls }) => calls.some((line) => lines.has(line))).slice(0, MOST_BOXES / 10);
    const found = new Set(last);
    for (let step = 0; step < AROUND; step += 1) {
      last = last.flatMap((box) => [...box.next.keys(), ...box.before]).filter((box) => !found.has(box) && found.size < MOST_BOXES && found.add(box));
    }
    return boxes.filter((box) => found.has(box));
  }

  draw() {
    if (!this.element.clientWidth) return;
    this.isDrawn = true;
    const all = this.graph();
    this.isPart = all.length > MOST_BOXES;
    this.boxes = this.isPart ? this.around(all) : all;
    this.canvas.clear();
    this.edges = [];
    if (this.isPart) {
      const text = this.boxes.length ? `${this.boxes.length} of ${all.length} boxes are drawn, those around what is pinned.` : `There are ${all.length} boxes: pin something, and those around it are drawn.`;
      addSpan(this.canvas.element, text, "hint");
    } else if (!all.length) addSpan(this.canvas.element, "The program calls no kernel and no operator.", "hint");
    if (!this.boxes.length) return;
    const layout = this.layout();
    const svg = this.canvas.add(layout.graph());
    this.addModules(svg, layout);
    for (const box of this.boxes) box.at = layout.node(nameOf(box.key));
    this.addEdges(svg, layout);
    for (const box of this.boxes) this.addBox(svg, box.at, box);
  }

  // Draw the edges, each from a place of its own at the right of a box to one at the left of another;
  // those that go back from the left to the right.
  addEdges(svg, layout) {
    const drawn = new Set(this.boxes);
    for (const from of this.boxes) {
      for (const [to, values] of from.next) {
        if (!drawn.has(to)) continue;
        const inner = layout.edge(nameOf(from.key), nameOf(to.key)).points.slice(1, -1);
        this.edges.push({ from, to, values: [...values], inner, way: to.at.x < from.at.x ? -1 : 1 });
      }
    }
    const places = (key, side, towards) => {
      for (const edges of groupBy(this.edges, (edge) => edge[key])) {
        const { at } = edges[0][key];
        edges.sort((a, b) => towards(a).y - towards(b).y);
        edges.forEach((edge, place) => {
          edge[`${key}Place`] = { x: at.x + (side * edge.way * BOX.width) / 2, y: at.y - BOX.height / 2 + (BOX.height * (place + 1)) / (edges.length + 1) };
        });
      }
    };
    places("from", 1, ({ inner, to }) => inner[0] ?? to.at);
    places("to", -1, ({ inner, from }) => inner.at(-1) ?? from.at);
    for (const edge of this.edges) this.addEdge(svg, edge);
  }

  addEdge(svg, edge) {
    const { from, to, values, inner, way, fromPlace, toPlace } = edge;
    const names = values.map((value) => `%${value}`).join(", ");
    const isOne = values.length === 1;
    const target = isOne ? { kind: "value", index: values[0] } : { kind: "lines", index: [...from.calls, ...to.calls] };
    const group = shape(svg, "g", { class: "flow", "aria-label": `${names} from ${this.wordsOf(from)} to ${this.wordsOf(to)}` });
    const end = { x: toPlace.x - 6 * way, y: toPlace.y };
    const d = curve([fromPlace, ...inner, end]);
    shape(group, "path", { class: "reach", d });
    shape(group, "path", { class: "edge", d });
    shape(group, "polygon", { class: "tip", points: "0,0 -7,-3.5 -7,3.5", transform: `translate(${toPlace.x} ${toPlace.y}) scale(${way} 1)` });
    shape(group, "title", {}).textContent = group.getAttribute("aria-label");
    group.addEventListener("click", () => this.view.pin(target, this));
    group.addEventListener("pointerenter", () => {
      this.pointed = edge;
      this.mark();
    });
    group.addEventListener("pointerleave", () => {
      this.pointed = null;
      this.mark();
    });
    edge.element = group;
  }

  wordsOf({ key, calls }) {
    const { links } = this.view;
    return typeof key === "number" ? `${links.calledBy(key)}, line ${links.lines.number[key]}` : `${key}, ${calls.length} calls`;
  }

  layout() {
    const layout = new dagre.graphlib.Graph({ compound: true });
    layout.setGraph({ rankdir: "LR", nodesep: 0, edgesep: TITLE, ranksep: 30, marginx: 8, marginy: 8 });
    layout.setDefaultEdgeLabel(() => ({}));
    for (const { key } of this.boxes) layout.setNode(nameOf(key), { width: BOX.width, height: BOX.height + ROOM });
    for (const { key, calls } of this.boxes) {
      const opened = this.paths.get(calls[0]).filter((path) => path !== key && this.open.has(path));
      let child = nameOf(key);
      for (const path of opened.reverse()) {
        if (!layout.hasNode(`in ${path}`)) layout.setNode(`in ${path}`, { path });
        layout.setParent(child, `in ${path}`);
        child = `in ${path}`;
      }
    }
    for (const { key, next } of this.boxes) {
      for (const to of next.keys()) if (layout.hasNode(nameOf(to.key))) layout.setEdge(nameOf(key), nameOf(to.key));
    }
    dagre.layout(layout);
    return layout;
  }

  // The outlines of opened modules, the outer ones first.
  addModules(svg, layout) {
    const opened = layout.nodes().map((name) => layout.node(name)).filter(({ path }) => path !== undefined);
    for (const { path, x, y, width, height } of opened.sort((a, b) => b.width * b.height - a.width * a.height)) {
      const [left, top] = [x - width / 2, y - height / 2];
      shape(svg, "rect", { class: "module", x: left, y: top, width, height, rx: 6 });
      const title = this.button(svg, `close ${path}`, () => this.toggle(path, false));
      label(title, shortName(`▾ ${path}`, Math.floor((width - 8) / LETTER)), { class: "path", x: left + 5, y: top + 11 });
    }
  }

  button(parent, name, action) {
    const group = shape(parent, "g", { class: "press", tabindex: 0, role: "button", "aria-label": name });
    group.addEventListener("click", (event) => {
      event.stopPropagation();
      action();
    });
    group.addEventListener("keydown", (event) => event.key === "Enter" && (event.stopPropagation(), action()));
    return group;
  }

  addBox(svg, { x, y }, box) {
    const { width, height } = BOX;
    const { links } = this.view;
    const isCall = typeof box.key === "number";
    const target = isCall ? { kind: "line", index: box.key } : { kind: "lines", index: box.calls };
    const name = isCall ? links.calledBy(box.key) : box.key;
    const words = this.wordsOf(box);
    const group = this.button(svg, words, () => this.view.pin(target, this));
    group.addEventListener("pointerenter", () => this.view.hover(target));
    group.addEventListener("pointerleave", () => this.view.hover(null));
    shape(group, "title", {}).textContent = words;
    const [left, top] = [x - width / 2, y - height / 2];
    shape(group, "rect", { class: isCall && links.lines.kernel[box.key] !== null ? "box kernel" : "box", x: left, y: top, width, height, rx: 4 });
    label(group, shortName(name), { x: left + 8, y: top + 15 });
    const bytes = box.calls.reduce((sum, line) => sum + links.lines.reads[line] + links.lines.writes[line], 0);
    const facts = isCall ? `line ${links.lines.number[box.key]}, ${formatBytes(bytes)}` : `${box.calls.length} calls, ${formatBytes(bytes)}`;
    label(group, facts, { class: "facts", x: left + 8, y: top + 29 });
    if (!isCall) {
      const opener = this.button(group, `open ${name}`, () => this.toggle(box.key, true));
      shape(opener, "rect", { class: "opener", x: left + width - 22, y: top, width: 22, height });
      label(opener, "▸", { x: left + width - 16, y: top + 22 });
    }
    box.element = group;
  }

  mark() {
    const has = ({ calls }, { lines }) => calls.some((line) => lines.has(line));
    for (const box of this.boxes) {
      if (!box.element) continue;
      box.element.classList.toggle("pinned", has(box, this.view.pinned));
      box.element.classList.toggle("lit", has(box, this.view.hovered) || this.pointed?.from === box || this.pointed?.to === box);
    }
    this.markEdges();
  }

  // Tell apart the edges into and out of what is pinned, or else of what the pointer is at.
  markEdges() {
    const { hovered, pinned } = this.view;
    const has = ({ calls }, { lines }) => calls.some((line) => lines.has(line));
    const lit = hovered.target ? hovered : pinned;
    const own = new Set(this.boxes.filter((box) => has(box, lit)));
    for (const edge of this.edges) {
      const isPointed = edge === this.pointed;
      const isOut = isPointed || (!this.pointed && own.has(edge.from));
      const isInto = !this.pointed && own.has(edge.to);
      edge.element.classList.toggle("out", isOut);
      edge.element.classList.toggle("into", isInto && !isOut);
      edge.element.classList.toggle("apart", Boolean(this.pointed || own.size) && !isOut && !isInto);
    }
  }

  revealLit(lit) {
    if (this.isPart) this.draw();
    this.mark();
    const box = this.boxOfLit(lit);
    if (box && this.isDrawn) this.reveal(box);
  }
}

// A smooth line through the middles of what is between some points.
function curve(points) {
  const middle = (a, b) => `${(a.x + b.x) / 2},${(a.y + b.y) / 2}`;
  const [first, ...others] = points;
  const last = others.at(-1);
  if (others.length === 1) {
    const x = (first.x + last.x) / 2;
    return `M${first.x},${first.y}C${x},${first.y} ${x},${last.y} ${last.x},${last.y}`;
  }
  const bends = others.slice(0, -1).map((point, at) => `Q${point.x},${point.y} ${middle(point, others[at + 1])}`);
  return `M${first.x},${first.y}${bends.join("")}L${last.x},${last.y}`;
}

const nameOf = (key) => (typeof key === "number" ? `line ${key}` : `module ${key}`);

const shortName = (name, most = LABEL) => (name.length > most ? `${name.slice(0, most >> 1)}…${name.slice(1 - (most >> 1))}` : name);

// A module's path and those of the modules around it, the outermost first.
function prefixes(path) {
  const parts = path ? path.split(".") : [];
  return parts.map((_, end) => parts.slice(0, end + 1).join("."));
}
