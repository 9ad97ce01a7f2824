"use strict";

// The texts that a search goes through, in their order: {group, rows, go}, as `Search` takes them.
class SearchedTexts {
  constructor(view) {
    this.view = view;
  }

  *of(wanted) {
    const { view } = this;
    const { kernels, nodes } = view.links;
    const named = [...this.named(wanted)];
    yield* named;
    const isOfCopies = /cop(y|ies)/.test(wanted); // then they come before nodes such as _to_copy
    if (isOfCopies) yield* this.copies();
    yield { group: "kernels", rows: kernels.name.map((name, i) => `@${name}  kernel ${i + 1} of ${kernels.name.length}`), go: this.inList("kernels", "kernel") };
    const described = nodes.name.map((name, i) => [name, nodes.operator[i], nodes.module[i]].filter(Boolean).join("  "));
    yield { group: "nodes of the graph", rows: described, go: this.inList("graph", "node") };
    yield this.decisions();
    if (!isOfCopies) yield* this.copies();
    const shown = new Set(Object.values(view.panes).map(({ text }) => text));
    const searched = (text, go) => ({ group: text.name, rows: text.rows, go, isText: true, isShown: shown.has(text) });
    if (!named.length) yield searched(view.texts.program[0], this.inPane("program"));
    for (const text of view.texts.source) yield searched(text, this.inPane("source", () => view.showSource(text)));
    for (const [index, step] of view.data.steps.entries()) yield this.pass(index, step);
    for (const { files } of view.texts.codes) {
      for (const text of files) yield searched(text, this.inPane("code", () => view.showCode(text)));
    }
  }

  // Of a name that the program has: the row that defines it, and then those that use it.
  *named(wanted) {
    if (!/^[%@][\w.]+$/.test(wanted)) return;
    const { data, links, panes } = this.view;
    const rows = this.view.texts.program[0].rows;
    const has = nameMatcher(wanted);
    const kernel = wanted.startsWith("@") ? links.kernels.name.findIndex((name) => `@${name}`.toLowerCase() === wanted) : -1;
    const found = [...rows.keys()].filter((row) => has(rows[row]) && (kernel >= 0 || row >= data.begin));
    // Values are defined above their uses, and kernels anywhere.
    const [first] = kernel >= 0 ? [links.kernels.begin[kernel] - 1] : found;
    if (first === undefined) return;
    const [name] = rows[first].match(nameIn(wanted));
    const target = kernel >= 0 ? { kind: "kernel", index: kernel } : { kind: "value", index: name.slice(1) };
    const show = () => {
      this.view.openPanel("program");
      this.view.pin(target);
      panes.program.find(first, name);
    };
    const group = (title, own, go) => ({ group: title, rows: own.map((row) => rows[row]), numbers: (at) => own[at] + 1, go: (at) => go(own[at]) });
    yield group(first === data.begin ? "inputs" : "definition", [first], show);
    const uses = found.filter((row) => row !== first);
    yield group("uses", uses, this.inPane("program", () => {}, name));
  }

  inPane(pane, show = () => {}, part = "") {
    return (row) => {
      show();
      this.view.openPanel(pane);
      this.view.panes[pane].pin(row);
      this.view.panes[pane].find(row, part);
    };
  }

  inList(name, kind) {
    return (index) => {
      this.view.openPanel(name);
      this.view.pin({ kind, index });
    };
  }

  decisions() {
    const { data, lists } = this.view;
    const { kind, subject, reason } = data.decisions;
    const rows = kind.map((each, i) => `${each}: ${subject[i]} ${reason[i]}`);
    return { group: "decisions", rows, go: (row) => {
      this.view.openPanel("decisions");
      lists.decisions.list.reveal(row);
      this.view.pin({ kind: "decision", index: row });
    } };
  }

  // The lines that copy, and those that need no copy, found by that word.
  *copies() {
    const { copies, lines } = this.view.links;
    const words = new Copies(this.view.links);
    const { made, unmade } = words.parted([...copies.line.keys()]);
    const group = (title, own) => ({
      group: title,
      rows: own.map((copy) => words.text(copy)),
      numbers: (at) => lines.number[copies.line[own[at]]],
      go: (at) => {
        this.view.openPanel("program");
        this.view.pin({ kind: "line", index: copies.line[own[at]] });
      },
    });
    yield group("copies", made);
    yield group("written without a copy", unmade);
  }

  // The rows of what a pass changed, with their signs.
  pass(index, { call, rows }) {
    const go = (row) => {
      this.view.openPanel("passes");
      this.view.lists.passes.find(index, row);
    };
    const numbers = (row) => rows.new[row] ?? rows.old[row] ?? "";
    const sign = (row) => (rows.old[row] === null ? "+" : rows.new[row] === null ? "-" : " ");
    const signed = rows.text.map((text, row) => text && `${sign(row)} ${text.trim()}`);
    return { group: `pass ${call}`, rows: signed, go, numbers };
  }
}
