"use strict";

const { kinds, counted, versions } = JSON.parse(document.getElementById("data").textContent);
const [curve, map, largest, tooltip, allBox] = ["curve", "map", "largest", "tooltip", "uncounted"].map(
  (id) => document.getElementById(id),
);
const listing = new Listing(document.getElementById("listing"));
const view = { version: null, memory: null, selected: -1, curve: null, map: null };

function shownBuffers(memory) {
  const indices = [...memory.buffers.name.keys()];
  return allBox.checked ? indices : indices.filter((i) => counted[memory.buffers.kind[i]]);
}

function addressEnd(memory) {
  const { buffers, pools } = memory;
  const end = (spans) => (index) => spans.address[index] + spans.size[index];
  const ends = shownBuffers(memory).map(end(buffers));
  return largestOf([...ends, ...[...pools.name.keys()].map(end(pools))]);
}

// Versions share their scale of bytes, so that they compare.
function alike(name, measure) {
  const memories = versions.flatMap((version) => version.memories);
  return largestOf(memories.filter((memory) => memory.name === name).map(measure));
}

function draw() {
  const { version, memory } = view;
  if (!memory) return; // the program holds nothing
  const showAll = allBox.checked;
  const mostBytes = (m) => largestOf(showAll ? sum(m.held, m.uncounted) : m.held);
  view.curve = drawCurve(curve, version, memory, alike(memory.name, mostBytes), showAll);
  const shown = shownBuffers(memory);
  view.map = drawMap(map, version, memory, alike(memory.name, addressEnd), shown);
  const present = new Set(shown.map((index) => memory.buffers.kind[index]));
  for (const entry of document.querySelectorAll("#kinds [data-kind]")) {
    entry.hidden = !present.has(Number(entry.dataset.kind));
  }
  document.getElementById("pool-legend").hidden = !memory.pools.name.length;
  document.querySelector(".uncounted-only").hidden = !showAll;
  allBox.parentElement.hidden = !memory.buffers.kind.some((kind) => !counted[kind]);
  select(view.selected);
}

function cell(row, text, name) {
  const element = document.createElement("td");
  element.className = name;
  element.textContent = text;
  row.append(element);
  return element;
}

function drawLargest() {
  const { version, memory } = view;
  const { buffers } = memory;
  const rows = memory.largest.map((index) => {
    const row = document.createElement("tr");
    row.dataset.buffer = index;
    cell(row, formatBytes(buffers.size[index]), "number");
    const { name, line, writer, provenance } = valueAt(buffers, index, memory.peakLine);
    cell(row, `%${name}`, "mono");
    cell(row, lifetime(version, buffers, index).replace(/^lines? /, ""), "");
    const maker = cell(row, "", "mono made");
    if (line >= 0) addSpan(maker, version.texts[line], "maker");
    if (writer >= 0) addSpan(maker, `line ${version.numbers[writer]}: ${version.texts[writer]}`, "below");
    if (provenance) addSpan(maker, `from ${provenance}`, "below");
    if (line < 0) addSpan(maker, kinds[buffers.kind[index]], "maker");
    return row;
  });
  largest.replaceChildren(...rows);
}

function show(version, memory) {
  Object.assign(view, { version, memory, selected: -1 });
  for (const button of document.querySelectorAll(".version")) {
    const { memories } = versions[button.dataset.version];
    button.setAttribute("aria-pressed", memories[button.dataset.memory] === memory);
  }
  document.getElementById("text-of").textContent = `of the program ${version.label}`;
  drawLargest();
  listing.show(version, memory);
  draw();
}

function select(index) {
  view.map.rectangles.get(view.selected)?.classList.remove("selected");
  view.selected = index;
  const rectangle = view.map.rectangles.get(index);
  if (rectangle) {
    rectangle.classList.add("selected");
    rectangle.parentElement.append(rectangle);
  }
  for (const row of document.querySelectorAll("#largest tr")) {
    row.classList.toggle("selected", Number(row.dataset.buffer) === index);
  }
  listing.select(index < 0 ? -1 : view.memory.buffers.line[index]);
}

function showBuffer(event, index) {
  showTooltip(tooltip, event, describeBuffer(kinds, view.version, view.memory.buffers, index));
}

function describeLine(line) {
  const { version, memory } = view;
  const lines = [`line ${version.numbers[line]}: ${exactBytes(memory.live[line])} live`];
  if (memory.held[line] !== memory.live[line]) {
    lines.push(`${exactBytes(memory.held[line])} held`);
  }
  lines.push(version.texts[line]);
  return lines;
}

function lineUnder(event) {
  return view.curve.lineAt(event.clientX - curve.getBoundingClientRect().left);
}

curve.addEventListener("pointermove", (event) => {
  if (!view.version.numbers.length) return;
  const line = lineUnder(event);
  showTooltip(tooltip, event, describeLine(line));
  let cursor = curve.querySelector(".cursor");
  cursor ??= shape(curve, "line", { class: "cursor", y1: TOP, y2: view.curve.height - BOTTOM });
  for (const end of ["x1", "x2"]) cursor.setAttribute(end, view.curve.x(line + 0.5));
});
curve.addEventListener("click", (event) => {
  select(-1);
  if (view.version.numbers.length) listing.select(lineUnder(event));
});
map.addEventListener("pointermove", (event) => {
  const index = event.target.dataset.buffer;
  if (index === undefined) tooltip.hidden = true;
  else showBuffer(event, index);
});
for (const element of [curve, map, largest]) {
  element.addEventListener("pointerleave", () => {
    tooltip.hidden = true;
    curve.querySelector(".cursor")?.remove();
  });
}
map.addEventListener("click", (event) => select(Number(event.target.dataset.buffer ?? -1)));
largest.addEventListener("click", (event) => {
  const row = event.target.closest("tr");
  if (row) select(Number(row.dataset.buffer));
});
largest.addEventListener("pointermove", (event) => {
  const row = event.target.closest("tr");
  if (row) showBuffer(event, row.dataset.buffer);
});
document.querySelector(".versions").addEventListener("click", (event) => {
  const button = event.target.closest(".version");
  if (!button) return;
  const version = versions[button.dataset.version];
  show(version, version.memories[button.dataset.memory]);
});
allBox.addEventListener("change", draw);
window.addEventListener("resize", draw);
const first = versions.find((version) => version.memories.length);
if (first) show(first, first.memories[0]);
