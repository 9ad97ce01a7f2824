"use strict";

const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];

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

// The name of a buffer at a line: the one that it was last reused as.
function nameAt(buffers, index, line) {
  const found = buffers.renamed[index].findLast(([since]) => since <= line);
  return found ? found[1] : buffers.name[index];
}

function describeBuffer(kinds, version, buffers, index) {
  const lines = [`%${buffers.name[index]}: ${exactBytes(buffers.size[index])}`];
  if (buffers.also[index]) lines.push(`also ${buffers.also[index]}`);
  lines.push(buffers.type[index]);
  lines.push(`alive at ${lifetime(version, buffers, index)}`);
  const place = buffers.place[index];
  lines.push(place ? `at ${place}` : kinds[buffers.kind[index]]);
  const line = buffers.line[index];
  if (line >= 0) lines.push(`line ${version.numbers[line]}: ${version.texts[line]}`);
  const writer = buffers.writer[index];
  if (writer >= 0) lines.push(`written at line ${version.numbers[writer]}: ${version.texts[writer]}`);
  if (buffers.provenance[index]) lines.push(`from ${buffers.provenance[index]}`);
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
