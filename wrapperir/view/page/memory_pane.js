"use strict";

// The curve and the map of the memory report, with rectangles and lines that have targets.
class MemoryPane {
  constructor(section, view, { version, kinds }) {
    Object.assign(this, { section, view, version, kinds });
    [this.curve, this.map, this.choices] = ["#curve", "#map", "#memories"].map((id) => section.querySelector(id));
    this.memory = version.memories[0];
    this.tooltip = document.getElementById("tooltip");
    version.memories.forEach((memory) => this.addChoice(memory));
    this.curve.addEventListener("pointermove", (event) => this.pointAtCurve(event));
    this.curve.addEventListener("click", (event) => view.pin({ kind: "line", index: this.lineUnder(event) }, this));
    this.map.addEventListener("pointermove", (event) => this.pointAtMap(event));
    this.map.addEventListener("click", (event) => {
      const buffer = event.target.dataset.buffer;
      if (buffer !== undefined) view.pin({ kind: "value", index: this.memory.buffers.name[buffer] }, this);
    });
    for (const element of [this.curve, this.map]) {
      element.addEventListener("pointerleave", () => {
        this.tooltip.hidden = true;
        view.hover(null);
      });
    }
    new ResizeObserver(() => this.draw()).observe(section);
  }

  addChoice(memory) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "link";
    const { numbers } = this.version;
    const at = numbers.length ? ` at line ${numbers[memory.peakLine]}` : "";
    button.textContent = `${memory.name}: peak ${formatBytes(memory.peak)}${at}`;
    button.addEventListener("click", () => {
      this.memory = memory;
      this.draw();
      if (numbers.length) this.view.pin({ kind: "line", index: memory.peakLine }, this);
    });
    this.choices.append(button);
  }

  draw() {
    const { memory, version } = this;
    if (!memory || !this.curve.getBoundingClientRect().width) return;
    const { buffers, pools } = memory;
    const shown = [...buffers.name.keys()].filter((index) => this.view.counted[buffers.kind[index]]);
    const ends = (spans, indices) => indices.map((index) => spans.address[index] + spans.size[index]);
    const most = largestOf([...ends(buffers, shown), ...ends(pools, [...pools.name.keys()])]);
    this.scale = drawCurve(this.curve, version, memory, largestOf(memory.held), false);
    drawMap(this.map, version, memory, most, shown);
    const present = new Set(shown.map((index) => buffers.kind[index]));
    for (const entry of this.section.querySelectorAll("[data-kind]")) {
      entry.hidden = !present.has(Number(entry.dataset.kind));
    }
    this.section.querySelector("#pool-legend").hidden = !pools.name.length;
    this.mark();
  }

  // Draw a line at what is pinned, and outline its buffers.
  mark() {
    if (!this.scale) return;
    const { pinned } = this.view;
    for (const old of this.section.querySelectorAll(".cursor")) old.remove();
    for (const svg of [this.curve, this.map]) {
      const { height } = svg.getBoundingClientRect();
      for (const line of [...pinned.lines].slice(0, 200)) {
        const at = this.scale.x(line + 0.5);
        shape(svg, "line", { class: "cursor", x1: at, x2: at, y1: TOP, y2: height - BOTTOM });
      }
    }
    const { target } = pinned;
    for (const rectangle of this.map.querySelectorAll("rect.buffer")) {
      const { buffers } = this.memory;
      const name = buffers.name[rectangle.dataset.buffer];
      rectangle.classList.toggle("selected", target?.kind === "value" && target.index === name);
    }
  }

  revealLit() {} // all of the charts is in sight

  lineUnder(event) {
    return this.scale.lineAt(event.clientX - this.curve.getBoundingClientRect().left);
  }

  pointAtCurve(event) {
    const { memory, version } = this;
    if (!version.numbers.length) return;
    const line = this.lineUnder(event);
    const held = memory.held[line] === memory.live[line] ? [] : [`${exactBytes(memory.held[line])} held`];
    showTooltip(this.tooltip, event, [
      `line ${version.numbers[line]}: ${exactBytes(memory.live[line])} live`, ...held, version.texts[line],
    ]);
    this.view.hover({ kind: "line", index: line });
  }

  pointAtMap(event) {
    const index = event.target.dataset.buffer;
    this.tooltip.hidden = index === undefined;
    if (index === undefined) {
      this.view.hover(null);
      return;
    }
    const { buffers } = this.memory;
    showTooltip(this.tooltip, event, describeBuffer(this.kinds, this.version, buffers, index));
    this.view.hover({ kind: "value", index: buffers.name[index] });
  }
}
