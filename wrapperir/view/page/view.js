"use strict";

const TOOLS = ["kernels", "graph", "memory", "passes", "decisions"];

// The page: its panes, what the pointer is at, and what is pinned.
class View {
  constructor(data) {
    this.data = data;
    this.links = new Links(data);
    this.counted = data.counted;
    this.hovered = this.pinned = this.links.lit(null);
    const section = (name) => document.querySelector(`.panel[data-name=${name}]`);
    this.section = section;
    this.texts = {
      source: data.files.map((file, index) => sourceText(this.links, file, index)),
      program: [programText(this.links, data.text)],
      codes: data.codes.map((code) => ({
        emitter: code.emitter,
        files: code.refusals.length ? [refusedText(code)] : code.files.map((file) => codeText(this.links, code, file)),
      })),
    };
    this.panes = {};
    for (const name of ["source", "program", "code"]) this.panes[name] = new CodePane(section(name), this);
    this.details = new Details(document.getElementById("details"), this);
    this.changes = new MemoryChanges(this, data.reused, data.steps);
    this.lists = {
      kernels: kernelList(section("kernels"), this),
      graph: nodeList(section("graph"), this, (file) => this.fileName(file)),
      drawing: new GraphDrawing(section("graph").querySelector(".drawing"), this),
      memory: new MemoryPane(section("memory"), this, { version: data.memory, kinds: data.kinds }),
      decisions: decisionList(section("decisions"), this, data.decisions),
      passes: new PassesPane(section("passes"), this, data.steps),
    };
    const searched = new SearchedTexts(this);
    this.search = new Search(
      document.getElementById("search"), document.getElementById("results"), (wanted) => searched.of(wanted),
    );
    this.addChoices();
    this.addFacts();
    this.addKeys();
    this.showSource(this.firstSource());
    this.panes.program.show(this.texts.program[0]);
    this.panes.program.element.scrollTop = data.begin * ROW;
    if (this.texts.codes.length) this.showCode(this.texts.codes[0].files[0]);
    else this.panes.code.show(missingText("No emitter is shown."));
    this.openTool("kernels");
    this.details.show(this.pinned);
  }

  // Names of files, with as much of their paths as tells them apart.
  fileName(file) {
    const parts = this.data.files[file].path.split("/");
    const name = (count) => parts.slice(-count).join("/");
    for (let count = 1; count < parts.length; count += 1) {
      const ending = `/${name(count)}`;
      if (this.data.files.filter(({ path }) => `/${path}`.endsWith(ending)).length === 1) return name(count);
    }
    return this.data.files[file].path;
  }

  nameOf({ kind, index }) {
    const { lines, kernels, nodes, operators } = this.links;
    if (kind === "line") return `line ${lines.number[index]}`;
    if (kind === "kernel") return `kernel @${kernels.name[index]}`;
    if (kind === "kernels") return `kernels ${index.map((kernel) => `@${kernels.name[kernel]}`).join(", ")}`;
    if (kind === "statement") return `statement of kernel @${kernels.name[index[0]]}`;
    if (kind === "node") return `node ${nodes.name[index]}`;
    if (kind === "nodes") return index.length === 1 ? `node ${nodes.name[index[0]]}` : `${index.length} nodes`;
    if (kind === "lines") return index.length === 1 ? `line ${lines.number[index[0]]}` : `${index.length} lines`;
    if (kind === "decision") return this.data.decisions.kind[index];
    if (kind === "operator") return `calls of ${operators.name[index]}`;
    if (kind === "value") return `value %${index}`;
    const at = index.indexOf(":");
    return `${this.fileName(Number(index.slice(0, at)))}${index.slice(at)}`;
  }

  // A place as "model.py:12".
  placeName(place) {
    return this.nameOf({ kind: "place", index: this.links.placeKey(place) });
  }

  // The place and the module of a node, as "model.py:12 in layers.0".
  whereIs(node) {
    const { module, places } = this.links.nodes;
    const [place] = places[node];
    return [place !== undefined && this.placeName(place), module[node] && `in ${module[node]}`].filter(Boolean).join(" ");
  }

  // The row of the source at a place, if the page has it.
  sourceOf(place) {
    const { file, line } = this.links.places;
    return this.texts.source[file[place]].rows[line[place] - 1]?.trim() ?? "";
  }

  firstSource() {
    const found = this.texts.source.find((text) => !text.reason);
    return found ?? this.texts.source[0] ?? missingText("The program names no source files.");
  }

  hover(target) {
    if (JSON.stringify(target) === JSON.stringify(this.hovered.target)) return;
    this.hovered = this.links.lit(target);
    if (!this.pinned.target) this.details.show(this.hovered);
    this.draw();
  }

  // Pin a target, and have each pane but the one it is in show what belongs to it.
  pin(target, from = null) {
    this.pinned = this.links.lit(target);
    for (const pane of Object.values(this.panes)) pane.forget(pane === from);
    this.details.show(this.pinned);
    if (target) this.reveal(from);
    this.draw();
  }

  reveal(from) {
    const lit = this.pinned;
    const inner = [...lit.places].filter(([, how]) => how === "inner").map(([key]) => Number(key.split(":")[0]));
    const { source } = this.panes;
    const current = this.texts.source.indexOf(source.text);
    if (from !== source && inner.length && !inner.includes(current)) this.showSource(this.texts.source[inner[0]]);
    if (from !== this.panes.code) {
      const found = this.codeOf(lit);
      const emitter = this.emitterOf(this.panes.code.text);
      const own = found.filter(({ text }) => emitter?.files.includes(text));
      const best = this.bestCode(own, lit);
      if (best.length && !best.some(({ text }) => text === this.panes.code.text)) this.showCode(best[0].text);
    }
    for (const pane of Object.values(this.panes)) if (pane !== from) pane.revealLit(lit);
    for (const list of Object.values(this.lists)) if (list !== from) list.revealLit(lit);
    const isOfKernel = ["kernel", "statement"].includes(lit.target.kind);
    if (from === this.panes.program && isOfKernel) this.revealKernelRow(from);
  }

  // Show the row of a kernel's emitted code that is the row at the cursor of its source.
  revealKernelRow({ text, cursor }) {
    const { code } = this.panes;
    const wanted = text.rows[cursor].replace(/^\s*\| ?/, "").trim();
    if (!wanted) return;
    const isOfKernel = (row) => ["kernel", "statement"].includes(code.stateOf(row, this.pinned));
    const row = code.text.rows.findIndex((each, at) => each.trim() === wanted && isOfKernel(at));
    if (row >= 0) code.moveTo(row, false);
  }

  draw() {
    for (const pane of Object.values(this.panes)) pane.list.draw();
    this.lists.kernels.list.draw();
    this.lists.graph.list.draw();
    this.lists.decisions.list.draw();
    this.lists.passes.list.draw();
    this.lists.memory.mark();
    this.lists.drawing.mark();
  }

  // Of the files that what is lit became, those of a kernel's code, if there are some.
  bestCode(found, lit) {
    const isBest = lit.target?.kind === "kernel" ? ({ isKernel }) => isKernel : ({ isStatement }) => isStatement;
    const best = found.filter(isBest);
    return best.length ? best : found;
  }

  // The ranges of rows of each emitted file that lines of what is lit became; of a kernel, those
  // of its own code, and of nodes their statements in kernels, where a file has that.
  codeOf(lit) {
    const found = [];
    for (const { files } of this.texts.codes) {
      for (const text of files) {
        const states = text.rows.map((_, row) => text.stateOf(row, lit));
        const order = lit.target?.kind === "kernel" ? [["kernel"], ["line"]] : [["line", "statement"], ["head"]];
        const wanted = order.find((each) => each.some((state) => states.includes(state)));
        const isLit = (row) => (wanted ? wanted.includes(states[row]) : states[row]);
        const ranges = [];
        for (let row = 0; row < text.rows.length; row += 1) {
          if (!isLit(row)) continue;
          if (ranges.length && ranges.at(-1)[1] === row - 1) ranges.at(-1)[1] = row;
          else ranges.push([row, row]);
        }
        const has = (state) => wanted?.includes(state) && states.includes(state);
        if (ranges.length) found.push({ text, ranges, isKernel: has("kernel"), isStatement: has("statement") });
      }
    }
    return found;
  }

  emitterOf(text) {
    return this.texts.codes.find(({ files }) => files.includes(text));
  }

  openCode(text, row) {
    this.showCode(text);
    this.panes.code.moveTo(row);
    this.openPanel("code");
  }

  // Show where the program defines a kernel.
  openDefinition(kernel) {
    this.panes.program.moveTo(this.links.kernels.begin[kernel] - 1);
    this.openPanel("program");
  }

  showSource(text) {
    this.panes.source.show(text);
    choose(document.getElementById("source-file"), this.texts.source.indexOf(text));
  }

  showCode(text) {
    this.panes.code.show(text);
    const emitter = this.emitterOf(text);
    for (const button of document.querySelectorAll("#emitters button")) {
      button.setAttribute("aria-pressed", button.dataset.emitter === emitter.emitter);
    }
    const select = document.getElementById("code-file");
    fillSelect(select, emitter.files.map((each) => each.name.slice(emitter.emitter.length + 2)));
    select.hidden = emitter.files.length < 2;
    choose(select, emitter.files.indexOf(text));
  }

  openTool(name) {
    if (TOOLS.includes(name)) document.body.dataset.tool = name;
    if (name === "memory") this.lists.memory.draw();
    if (name === "graph") this.lists.drawing.show();
    for (const button of document.querySelectorAll("#tabs [data-panel]")) {
      button.setAttribute("aria-pressed", button.dataset.panel === document.body.dataset.tool);
    }
  }

  // Show a panel where there is room for one.
  openPanel(name) {
    document.body.dataset.panel = name;
    this.openTool(name);
    for (const button of document.querySelectorAll("#panels button")) {
      button.setAttribute("aria-pressed", button.dataset.panel === name);
    }
    this.draw();
  }

  addChoices() {
    const files = document.getElementById("source-file");
    fillSelect(files, this.data.files.map((_, file) => this.fileName(file)));
    files.hidden = this.data.files.length < 2;
    files.addEventListener("change", () => this.showSource(this.texts.source[files.value]));
    const codes = document.getElementById("code-file");
    codes.addEventListener("change", () => {
      this.showCode(this.emitterOf(this.panes.code.text).files[codes.value]);
      this.panes.code.revealLit(this.pinned);
    });
    for (const code of this.texts.codes) {
      const button = addButton(document.getElementById("emitters"), code.emitter, () => {
        const found = this.codeOf(this.pinned).filter(({ text }) => code.files.includes(text));
        this.showCode(this.bestCode(found, this.pinned)[0]?.text ?? code.files[0]);
        this.panes.code.revealLit(this.pinned);
      });
      button.dataset.emitter = code.emitter;
    }
    for (const name of TOOLS) {
      const title = document.querySelector(`#panels [data-panel=${name}]`)?.textContent;
      if (title) addButton(document.getElementById("tabs"), title, () => this.openTool(name)).dataset.panel = name;
    }
    const larger = addButton(document.getElementById("tabs"), "⤢", () => {
      const isLarge = document.body.toggleAttribute("data-large");
      larger.setAttribute("aria-pressed", isLarge);
    });
    larger.id = "larger";
    larger.ariaLabel = larger.title = "give the panel below all of the height";
    document.getElementById("panels").addEventListener("click", (event) => {
      if (event.target.dataset.panel) this.openPanel(event.target.dataset.panel);
    });
    const outline = document.getElementById("outline");
    const { kernels } = this.links;
    const parts = [["the program", this.data.begin], ...kernels.name.map((name, i) => [`@${name}`, kernels.begin[i] - 1])];
    fillSelect(outline, parts.map(([name]) => name));
    outline.addEventListener("change", () => {
      const [, row] = parts[outline.value];
      this.panes.program.moveTo(row);
      if (this.panes.program.text.targetAt(row)) this.panes.program.pin(row);
    });
    document.getElementById("theme").addEventListener("click", () => {
      const { style } = document.documentElement;
      const isDark = getComputedStyle(document.body).getPropertyValue("--is-dark").trim() === "1";
      const dark = style.colorScheme ? style.colorScheme === "dark" : isDark;
      style.colorScheme = dark ? "light" : "dark";
    });
  }

  addFacts() {
    const { lines, kernels, nodes } = this.links;
    const facts = document.getElementById("facts");
    const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
    addSpan(facts, count(lines.number.length, "line"), "fact");
    addSpan(facts, count(kernels.name.length, "kernel"), "fact");
    addSpan(facts, count(nodes.name.length, "node"), "fact");
    const [memory] = this.data.memory.memories;
    if (memory && lines.number.length) {
      const where = this.whereIsPeak(memory);
      const text = [`peak ${formatBytes(memory.peak)} at line ${lines.number[memory.peakLine]}`, where].filter(Boolean).join(", ");
      const button = addButton(facts, text, () => {
        this.pin({ kind: "line", index: memory.peakLine });
        this.openPanel("details");
      });
      button.id = "peak";
      button.title = "The most bytes held: whole pools, and buffers outside pools. Of several such lines, the first where most is live.";
    }
  }

  // The place and the module of what the peak line takes memory for, or of the line.
  whereIsPeak({ peakLine, buffers }) {
    const taken = new AliveValues(this.details).takenAt(buffers, peakLine);
    const nodes = taken === undefined ? [] : this.links.nodesOf({ kind: "value", index: buffers.name[taken] });
    const [node] = nodes.length ? nodes : this.links.lines.nodes[peakLine];
    return node === undefined ? "" : this.whereIs(node);
  }

  addKeys() {
    document.addEventListener("keydown", (event) => {
      if (event.target.closest("input, select")) return;
      if (event.key === "/" || event.key === ":") {
        const search = document.getElementById("search");
        search.focus();
        if (event.key === ":") search.value = ":";
        event.preventDefault();
      } else if (event.key === "Escape") this.pin(null);
    });
  }
}

function addButton(parent, text, action) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = text;
  button.addEventListener("click", action);
  parent.append(button);
  return button;
}

function fillSelect(select, names) {
  select.replaceChildren(
    ...names.map((name, index) => {
      const option = document.createElement("option");
      option.value = index;
      option.textContent = name;
      return option;
    }),
  );
}

// Choose an option; the title has all of its text where there is no room for that.
function choose(select, index) {
  select.value = index;
  select.title = select.selectedOptions[0]?.textContent ?? "";
}

const view = new View(JSON.parse(document.getElementById("data").textContent));
