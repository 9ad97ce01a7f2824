"use strict";

const SVG = "http://www.w3.org/2000/svg";
const LEFT = 76;
const RIGHT = 14;
const TOP = 16;
const BOTTOM = 22;

function shape(parent, name, attributes) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  parent.append(element);
  return element;
}

function label(parent, text, attributes) {
  shape(parent, "text", attributes).textContent = text;
}

// Clear a chart and draw its axes; return how lines and bytes become positions.
function axes(svg, version, most) {
  const { width, height } = svg.getBoundingClientRect();
  const count = Math.max(version.numbers.length, 1);
  const x = (line) => LEFT + (line * (width - LEFT - RIGHT)) / count;
  const y = (bytes) => height - BOTTOM - (bytes * (height - TOP - BOTTOM)) / (most || 1);
  svg.replaceChildren();
  for (const value of ticks(most)) {
    const at = y(value);
    shape(svg, "line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: at, y2: at });
    label(svg, formatBytes(value), { x: LEFT - 6, y: at + 4, "text-anchor": "end" });
  }
  const every = Math.max(1, Math.ceil((count * 70) / (width - LEFT - RIGHT)));
  for (let line = 0; line < version.numbers.length; line += every) {
    if (x(line) < width - 50) label(svg, version.numbers[line], { x: x(line), y: height - 6 });
  }
  const lineAt = (position) =>
    Math.min(count - 1, Math.max(0, Math.floor(((position - LEFT) / (x(count) - LEFT)) * count)));
  return { x, y, lineAt, width, height };
}

function steps(values, { x, y }) {
  let path = "";
  let previous = null;
  values.forEach((value, line) => {
    if (value !== previous) path += `${path ? "" : `M${x(0)},${y(value)}`}H${x(line)}V${y(value)}`;
    previous = value;
  });
  return path ? `${path}H${x(values.length)}` : "M0,0";
}

function sum(left, right) {
  return left.map((value, index) => value + right[index]);
}

function largestOf(values) {
  return values.reduce((most, value) => Math.max(most, value), 0);
}

function drawCurve(svg, version, memory, most, showAll) {
  const scale = axes(svg, version, most);
  const live = steps(memory.live, scale);
  const base = scale.y(0);
  const end = scale.x(memory.live.length);
  shape(svg, "path", { class: "live", d: `${live}V${base}H${scale.x(0)}Z` });
  shape(svg, "path", { class: "held", d: steps(memory.held, scale) });
  if (showAll) {
    shape(svg, "path", { class: "with-uncounted", d: steps(sum(memory.held, memory.uncounted), scale) });
  }
  const bound = scale.y(memory.lowerBound);
  shape(svg, "line", { class: "bound", x1: LEFT, x2: end, y1: bound, y2: bound });
  drawPeak(svg, version, memory, scale);
  return scale;
}

function drawPeak(svg, version, memory, scale) {
  if (!version.numbers.length) return;
  const at = scale.x(memory.peakLine + 0.5);
  const attributes = { class: "peak", x1: at, x2: at, y1: TOP - 4, y2: scale.height - BOTTOM };
  shape(svg, "line", attributes);
  const after = at < scale.width / 2;
  const place = { class: "peak", x: at + (after ? 4 : -4), y: TOP - 4 };
  place["text-anchor"] = after ? "start" : "end";
  label(svg, `peak, line ${version.numbers[memory.peakLine]}`, place);
}

function drawMap(svg, version, memory, most, shown) {
  const scale = axes(svg, version, most);
  const { x, y } = scale;
  const box = (spans, index) => ({
    x: x(spans.begin[index]),
    width: Math.max(0.5, x(spans.end[index]) - x(spans.begin[index])),
    y: y(spans.address[index] + spans.size[index]),
    height: Math.max(0.5, y(spans.address[index]) - y(spans.address[index] + spans.size[index])),
  });
  const { buffers, pools } = memory;
  const rectangles = new Map();
  const group = shape(svg, "g", {});
  for (const index of shown) {
    const alive = buffers.begin[index] <= memory.peakLine && memory.peakLine < buffers.end[index];
    const kind = `buffer kind-${buffers.kind[index]}${alive ? " alive" : ""}`;
    const attributes = { class: kind, "data-buffer": index, ...box(buffers, index) };
    rectangles.set(index, shape(group, "rect", attributes));
  }
  pools.name.forEach((name, index) => {
    shape(svg, "rect", { class: "pool", ...box(pools, index) });
  });
  drawPeak(svg, version, memory, scale);
  return { ...scale, rectangles };
}
