"use strict";

// A button that is replaced by what `add` appends in its place.
function addOpener(parent, text, add) {
  const button = addButton(parent, text, () => {
    const rest = document.createElement("span");
    add(rest);
    button.replaceWith(rest);
  });
  button.className = "link more";
}

// The first items, and a button that shows the others.
function addSome(parent, items, most, add) {
  for (const item of items.slice(0, most)) add(parent, item);
  const rest = items.slice(most);
  if (rest.length) addOpener(parent, `and ${rest.length} more`, (place) => rest.forEach((item) => add(place, item)));
}

// Equal layers: what differs in the numbers in the paths of its modules only.
const layerPattern = (module) => (module ?? "").replace(/(^|\.)\d+(?=\.|$)/g, "$1*");

// The items of each key, in the order in which keys come first.
function groupBy(items, keyOf) {
  const groups = new Map();
  for (const item of items) {
    const key = keyOf(item);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(item);
  }
  return [...groups.values()];
}

// The order of lists of numbers, as of words.
function compareNumbers(a, b) {
  const at = a.findIndex((number, index) => number !== b[index]);
  return at < 0 ? a.length - b.length : a[at] - (b[at] ?? -1);
}

// The paths of equal layers as one each, "layers.0–11.mlp, head"; paths that are some, but not
// all, of those with several numbers are listed.
function joinModules(paths) {
  const found = [...new Set(paths.filter(Boolean))];
  return groupBy(found, layerPattern).map(joinLayers).join(", ");
}

function joinLayers(paths) {
  const parts = paths.map((path) => path.split("."));
  const columns = parts[0].map((_, at) => [...new Set(parts.map((each) => each[at]))]);
  const isAll = columns.reduce((count, column) => count * column.length, 1) === paths.length;
  return isAll ? columns.map(joinNumbers).join(".") : paths.join(", ");
}

function joinNumbers(column) {
  if (column.length === 1) return column[0];
  const spans = [];
  for (const number of column.map(Number).sort((a, b) => a - b)) {
    const last = spans.at(-1);
    if (last && number === last[1] + 1) last[1] = number;
    else spans.push([number, number]);
  }
  return spans.map(([begin, end]) => (begin === end ? `${begin}` : `${begin}–${end}`)).join(",");
}
