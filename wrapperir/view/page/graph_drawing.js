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
    new ResizeObserver(() => this.show()).observe(element);
  }

  // Draw what has not been drawn, if there is room.
  show() {
    if (this.isDrawn) return;
    this.draw();
    this.mark();
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
      if (!boxes.has(key)) boxes.set(key, { key, calls: [], next: new Set(), before: new Set() });
      boxes.get(key).calls.push(line);
    }
    const { sources } = this.view.links.lines;
    for (const box of boxes.values()) {
      for (const source of box.calls.flatMap((line) => sources[line])) {
        const from = this.paths.has(source) && boxes.get(this.boxOf(source));
        if (!from || from === box) continue;
        from.next.add(box);
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
      last = last.flatMap((box) => [...box.next, ...box.before]).filter((box) => !found.has(box) && found.size < MOST_BOXES && found.add(box));
    }
    return boxes.filter((box) => found.has(box));
  }

  draw() {
    if (!this.element.clientWidth) return;
    this.isDrawn = true;
    const all = this.graph();
    this.isPart = all.length > MOST_BOXES;
    this.boxes = this.isPart ? this.around(all) : all;
    this.element.replaceChildren();
    if (this.isPart) {
      const text = this.boxes.length ? `${this.boxes.length} of ${all.length} boxes are drawn, those around what is pinned.` : `There are ${all.length} boxes: pin something, and those around it are drawn.`;
      addSpan(this.element, text, "hint");
    } else if (!all.length) addSpan(this.element, "The program calls no kernel and no operator.", "hint");
    if (!this.boxes.length) return;
    const layout = this.layout();
    const svg = document.createElementNS(SVG, "svg");
    const { width, height } = layout.graph();
    svg.setAttribute("width", width);
    svg.setAttribute("height", height);
    this.element.append(svg);
    this.addModules(svg, layout);
    for (const edge of layout.edges()) {
      const points = layout.edge(edge).points.map(({ x, y }) => `${x},${y}`).join(" ");
      shape(svg, "polyline", { class: "edge", points });
      const [before, end] = layout.edge(edge).points.slice(-2);
      const angle = (Math.atan2(end.y - before.y, end.x - before.x) * 180) / Math.PI;
      shape(svg, "polygon", { class: "tip", points: "0,0 -7,-3.5 -7,3.5", transform: `translate(${end.x} ${end.y}) rotate(${angle})` });
    }
    for (const box of this.boxes) this.addBox(svg, layout.node(nameOf(box.key)), box);
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
      for (const to of next) if (layout.hasNode(nameOf(to.key))) layout.setEdge(nameOf(key), nameOf(to.key));
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
    const words = isCall ? `${name}, line ${links.lines.number[box.key]}` : `${name}, ${box.calls.length} calls`;
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
      box.element.classList.toggle("lit", has(box, this.view.hovered));
    }
  }

  revealLit(lit) {
    if (this.isPart) this.draw();
    this.mark();
    const box = this.boxes.find(({ calls }) => calls.some((line) => lit.lines.has(line)));
    box?.element?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
}

const nameOf = (key) => (typeof key === "number" ? `line ${key}` : `module ${key}`);

const shortName = (name, most = LABEL) => (name.length > most ? `${name.slice(0, most >> 1)}…${name.slice(1 - (most >> 1))}` : name);

// A module's path and those of the modules around it, the outermost first.
function prefixes(path) {
  const parts = path ? path.split(".") : [];
  return parts.map((_, end) => parts.slice(0, end + 1).join("."));
}
