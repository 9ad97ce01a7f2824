"use strict";

// The values that are alive at a line, the largest first, with the lines that took their memory.
class AliveValues {
  constructor(details) {
    this.details = details;
    this.view = details.view;
  }

  show(line) {
    for (const memory of this.view.data.memory.memories) this.ofMemory(memory, line);
  }

  // Says where the memory of a value is from, and when that is alive.
  describe(name) {
    const { memory, kinds } = this.view.data;
    for (const { buffers } of memory.memories) {
      const index = [...buffers.name.keys()].find((at) => buffers.name[at] === name || buffers.also[at].split(", ").includes(`%${name}`));
      if (index === undefined) continue;
      const reuse = buffers.reuses[index]?.name.indexOf(name) ?? -1;
      const facts = [kinds[buffers.kind[index]], formatBytes(buffers.size[index]), `alive at ${lifetime(memory, buffers, index)}`];
      if (buffers.name[index] === name) facts.unshift(buffers.type[index]);
      else if (reuse >= 0) facts.unshift(buffers.reuses[index].type[reuse]);
      const row = this.details.sentence("");
      if (buffers.name[index] !== name) {
        row.append("in the memory of ");
        this.details.goTo(row, { kind: "value", index: buffers.name[index] }, `%${buffers.name[index]}`, "mono");
        row.append(": ");
      }
      row.append(facts.join(", "));
      return;
    }
  }

  ofMemory(memory, line) {
    const { details } = this;
    const { name, live, held, peakLine, buffers } = memory;
    const isAlive = (index) => buffers.begin[index] <= line && line < buffers.end[index];
    const found = [...buffers.name.keys()].filter((index) => this.view.counted[buffers.kind[index]] && isAlive(index));
    if (!found.length) return;
    found.sort((a, b) => buffers.size[b] - buffers.size[a]);
    const isPeak = line === peakLine;
    details.heading(`${isPeak ? "Alive at the peak" : "Alive here"} on ${name}: ${formatBytes(live[line])}`);
    if (held[line] !== live[line]) details.sentence(`Pools have ${formatBytes(held[line] - live[line])} more, which no value has here.`);
    if (memory.uncounted[line]) details.sentence(`Not counted: ${formatBytes(memory.uncounted[line])} of ${this.view.data.uncounted}.`);
    if (isPeak) this.taken(memory, line);
    const given = found.filter((index) => buffers.line[index] < 0);
    const givenBytes = given.reduce((sum, index) => sum + buffers.size[index], 0);
    if (given.length) details.sentence(`${formatBytes(givenBytes)} of it is what the call is given, which it frees.`);
    details.heading(found.length === 1 ? "The value that is alive" : `The ${found.length} values that are alive, the largest first`);
    details.list(found, (row, index) => this.value(row, buffers, index, line, live[line]));
  }

  // What the peak line takes, and which line before it took most.
  taken({ held, peakRise: [riseLine, rise], buffers }, line) {
    const { details } = this;
    const own = this.takenAt(buffers, line);
    const isHigher = held[line] > (held[line - 1] ?? 0);
    if (own !== undefined) {
      const size = formatBytes(buffers.size[own]);
      const text = isHigher ? `This line takes ${size}` : `This line takes no more memory: a pool that was taken before has ${size}`;
      this.largest(details.sentence(text), buffers, own, line);
    }
    if (!isHigher) this.since(held, line);
    const most = this.takenAt(buffers, riseLine);
    if (riseLine === line || most === undefined) return;
    const row = details.sentence("Before it, since memory last fell, ");
    details.goTo(row, { kind: "line", index: riseLine }, `line ${this.view.links.lines.number[riseLine]}`);
    row.append(`took most: ${formatBytes(rise)}`);
    this.largest(row, buffers, most, riseLine);
  }

  // From which line on as much memory has been held as at a later one.
  since(held, line) {
    let first = line;
    while (first > 0 && held[first - 1] === held[line]) first -= 1;
    const row = this.details.sentence("As much has been held since ");
    this.details.goTo(row, { kind: "line", index: first }, `line ${this.view.links.lines.number[first]}`);
    row.append("; at this line most of it has values.");
  }

  // The largest buffer whose memory a line takes, if there is one.
  takenAt(buffers, line) {
    const isTaken = (index) => buffers.line[index] === line && buffers.begin[index] === line;
    const found = [...buffers.name.keys()].filter((index) => this.view.counted[buffers.kind[index]] && isTaken(index));
    return found.sort((a, b) => buffers.size[b] - buffers.size[a])[0];
  }

  largest(row, buffers, index, line) {
    const { details } = this;
    const { name, writer } = valueAt(buffers, index, line);
    row.append(" for ");
    details.goTo(row, { kind: "value", index: name }, `%${name}`, "mono");
    details.madeBy(row, name, "made by ");
    if (writer < 0) return;
    row.append(" and written first by ");
    details.goTo(row, { kind: "line", index: writer }, `line ${this.view.links.lines.number[writer]}, ${this.view.links.calledBy(writer)}`);
  }

  value(row, buffers, index, line, all) {
    const { details, view } = this;
    const { name, line: maker } = valueAt(buffers, index, line);
    const number = (at) => details.goTo(where, { kind: "line", index: at }, `line ${view.links.lines.number[at]}`);
    details.goTo(row, { kind: "value", index: name }, `%${name}`, "mono");
    addSpan(row, `${formatBytes(buffers.size[index])}, ${share(buffers.size[index], all)}`, "size");
    const where = addSpan(row, "", "place within");
    const first = buffers.line[index];
    const kind = view.data.kinds[buffers.kind[index]];
    const isResult = kind.startsWith("made by ");
    if (first < 0) where.append(kind);
    else {
      where.append(isResult ? "made at " : `${kind} at `);
      number(first);
    }
    if (maker !== first && maker >= 0) {
      where.append(` as %${buffers.name[index]}, reused at `);
      number(maker);
    }
    details.madeBy(where, name, isResult && maker === first ? "by " : first < 0 ? ", saved as " : "made by ");
    addSpan(where, `alive at ${lifetime(view.data.memory, buffers, index)}`, "facts");
  }
}

function share(part, all) {
  const percent = Math.round((100 * part) / all);
  return percent ? `${percent}%` : "less than 1%";
}
