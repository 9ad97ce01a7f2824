"use strict";

const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
const MOST_MAKINGS = 4; // values of one memory in a tooltip

function formatBytes(count) {
  let unit = 0;
  let value = count;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  if (unit === 0) return count === 1 ? "1 byte" : `${count} bytes`;
  const text = value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0);
  return `${text.includes(".") ? text.replace(/\.?0+$/, "") : text} ${UNITS[unit]}`;
}

function exactBytes(count) {
  if (count < 1024) return formatBytes(count);
  return `${formatBytes(count)} (${count.toLocaleString("en-US")} bytes)`;
}

function lifetime(version, buffers, index) {
  const { numbers } = version;
  if (buffers.begin[index] >= buffers.end[index]) return "no lines";
  const first = numbers[buffers.begin[index]];
  const last = numbers[buffers.end[index] - 1];
  return first === last ? `line ${first}` : `lines ${first}–${last}`;
}

// The value of a buffer at a line, {name, type, line, writer, provenance}: what it was last reused as.
function valueAt(buffers, index, line) {
  const reuses = buffers.reuses[index];
  const last = reuses ? reuses.line.findLastIndex((since) => since <= line) : -1;
  const [from, at] = last < 0 ? [buffers, index] : [reuses, last];
  return Object.fromEntries(["name", "type", "line", "writer", "provenance"].map((field) => [field, from[field][at]]));
}

// The lines that make and first write a value, and where they came from.
function describeMaking(version, { line, writer, provenance }) {
  const lines = [];
  if (line >= 0) lines.push(`line ${version.numbers[line]}: ${version.texts[line]}`);
  if (writer >= 0) lines.push(`written at line ${version.numbers[writer]}: ${version.texts[writer]}`);
  if (provenance) lines.push(`from ${provenance}`);
  return lines;
}

function describeBuffer(kinds, version, buffers, index) {
  const lines = [`%${buffers.name[index]}: ${exactBytes(buffers.size[index])}`];
  if (buffers.also[index]) lines.push(`also ${buffers.also[index]}`);
  lines.push(buffers.type[index]);
  lines.push(`alive at ${lifetime(version, buffers, index)}`);
  const place = buffers.place[index];
  lines.push(place ? `at ${place}` : kinds[buffers.kind[index]]);
  const values = [valueAt(buffers, index, -1), ...(buffers.reuses[index]?.line ?? []).map((line) => valueAt(buffers, index, line))];
  lines.push(...values.slice(0, MOST_MAKINGS).flatMap((value) => describeMaking(version, value)));
  if (values.length > MOST_MAKINGS) lines.push(`and reused ${values.length - MOST_MAKINGS} more times`);
  return lines;
}

// Round numbers of bytes to write at an axis: four to eight steps of a power of two.
function ticks(most) {
  if (most <= 0) return [0];
  let step = 1;
  while (most / step > 8) step *= 2;
  const found = [];
  for (let value = 0; value <= most; value += step) found.push(value);
  return found;
}
