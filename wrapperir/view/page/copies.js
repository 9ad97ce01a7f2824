"use strict";

// The copies that lines make, which words they are told in, and for whom they are.
class Copies {
  constructor(links) {
    this.links = links;
    this.copies = links.copies;
  }

  // Those that are for what is lit, and `others` that its lines make or read.
  of(lit) {
    const { copies } = this;
    const { lines, nodes } = lit;
    const isOfLines = (copy) => lines.has(copies.line[copy]) || copies.readers[copy].some((line) => lines.has(line));
    const found = [...copies.line.keys()].filter((copy) => isOfLines(copy) || copies.nodes[copy].some((node) => nodes.has(node)));
    const own = found.filter((copy) => this.isFor(copy, lit));
    return { own, others: found.filter((copy) => !own.includes(copy)) };
  }

  // Those that are made, and those that are told of as there is none.
  parted(found) {
    const { whole } = this.copies;
    return { made: found.filter((copy) => whole[copy]), unmade: found.filter((copy) => !whole[copy]) };
  }

  // Lines and what they call have all that they make or read; a value has its own copies, and
  // nodes and places of the source those that are made for their nodes, or else of their views.
  isFor(copy, { target, nodes }) {
    const { copies } = this;
    if (["line", "lines", "kernel", "kernels", "operator"].includes(target.kind)) return true;
    if (target.kind === "value") return [...copies.values[copy], ...copies.sources[copy], copies.part_of[copy]].includes(target.index);
    const [users, views] = [copies.nodes[copy], copies.views[copy]];
    const wanted = users.length ? users : views;
    return !wanted.length || wanted.some((node) => nodes.has(node));
  }

  // The same for the same copy of equal lines: a line has its copies in the order of what it writes.
  likeness(copy) {
    const line = this.copies.line[copy];
    return `${this.links.lines.alike[line]} ${copy - this.copies.line.indexOf(line)}`;
  }

  // The layouts, the bytes and whether it is returned, as words.
  facts(copy) {
    const { layouts, bytes, returned } = this.copies;
    const { [copy]: names } = layouts;
    const facts = names.length ? [`from ${names.slice(0, -1).join(" and ")} to ${names.at(-1)}`] : [];
    if (bytes[copy] !== null) facts.push(formatBytes(bytes[copy]));
    if (returned[copy]) facts.push("returned");
    return facts.join(", ");
  }

  // The operators that its line computes too, each once.
  fusedWith(copy) {
    const { name, operator } = this.links.nodes;
    const found = this.copies.fused[copy].map((node) => operator[node]?.split(".")[1] ?? name[node]);
    return [...new Set(found)].join(", ");
  }

  // One line of text for the search.
  text(copy) {
    const { copies, links } = this;
    const named = (names) => names.map((name) => `%${name}`).join(", ");
    const from = copies.sources[copy].length ? ` ${named(copies.sources[copy])}` : "";
    const to = copies.values[copy].length ? ` to ${named(copies.values[copy])}` : "";
    const users = copies.nodes[copy].map((node) => links.nodes.name[node]).join(", ");
    const { [copy]: isWhole } = copies.whole;
    const reason = users && ` for ${users}`;
    let does = `why there is a copy: copies${from}${to}${reason}`;
    if (!isWhole) does = `why there is no copy: writes${to} as ${users} lays it out`;
    if (!isWhole && from) does = `why there is no copy: writes what it computes for${from}${to} too${reason}`;
    return [does, this.facts(copy), links.calledBy(copies.line[copy])].filter(Boolean).join(", ");
  }

  show(details, row, copy) {
    const { copies, links } = this;
    const { lines } = links;
    const line = copies.line[copy];
    const values = (names) => names.forEach((name) => details.goTo(row, { kind: "value", index: name }, `%${name}`, "mono"));
    details.goTo(row, { kind: "line", index: line }, `line ${lines.number[line]}`);
    const { [copy]: isWhole } = copies.whole;
    if (isWhole) row.append(copies.sources[copy].length ? "copies " : "copies its argument ");
    else row.append(copies.sources[copy].length ? "writes what it computes for " : "writes what it computes ");
    values(copies.sources[copy]);
    const isStoredTwice = !isWhole && copies.sources[copy].length > 0;
    const isOwnPart = copies.values[copy].includes(copies.part_of[copy]);
    if (copies.values[copy].length) row.append(isOwnPart ? " to a part of " : " to ");
    values(copies.values[copy]);
    if (copies.part_of[copy] !== null && !isOwnPart) {
      row.append(", a part of ");
      values([copies.part_of[copy]]);
    }
    if (isStoredTwice) row.append(" too, without reading it again");
    else if (!isWhole) {
      row.append(" as ");
      for (const node of copies.nodes[copy]) details.node(row, node);
      row.append("lays it out, without a copy");
    }
    if (copies.views[copy].length) {
      row.append(isWhole || isStoredTwice ? " through these views: " : ", and reads through these views: ");
      addSome(row, copies.views[copy], MOST_IN_ROW, (parent, node) => details.node(parent, node));
    }
    const facts = this.facts(copy);
    if (facts) row.append(`, ${facts}`);
    if ((isWhole || isStoredTwice) && copies.nodes[copy].length) {
      row.append(", for ");
      for (const node of copies.nodes[copy]) details.node(row, node);
    }
    if (copies.readers[copy].length) row.append(isWhole ? "; the copy is read by " : "; it is read by ");
    addSome(row, copies.readers[copy], MOST_IN_ROW, (parent, reader) => {
      details.goTo(parent, { kind: "line", index: reader }, `line ${lines.number[reader]}, ${links.calledBy(reader)}`).title = lines.text[reader];
    });
    const others = this.fusedWith(copy);
    if (others) row.append(`; fused with ${others}`);
  }
}
