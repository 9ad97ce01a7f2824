"use strict";

// The texts that panes show: files of the source, the program, and emitted files.
function sourceText(links, file, index) {
  const unlinkedAt = (row) => ({ kind: "place", index: `${index}:${row + 1}` });
  const targetAt = (row) => (links.nodesAt.has(unlinkedAt(row).index) ? unlinkedAt(row) : null);
  return {
    name: file.path,
    rows: file.lines,
    reason: file.missing && `${file.path}: ${file.missing}`,
    language: languageOf(file.path),
    targetAt,
    unlinkedAt,
    stateOf: (row, lit) => stateOfTarget(unlinkedAt(row), lit),
  };
}

function programText(links, rows) {
  const { kernels } = links;
  const targets = rows.map((_, row) => links.atRow(row + 1));
  return {
    name: "program",
    rows,
    hasCalls: true,
    language: "wir",
    innerLanguage: (row) => {
      const target = targets[row];
      if (target?.kind !== "kernel" || !rows[row].startsWith("    |")) return null;
      return { triton: "python", cpp: "cpp" }[kernels.language[target.index]] ?? "cpp";
    },
    targetAt: (row) => targets[row],
    stateOf: (row, lit) => stateOfTarget(targets[row], lit),
  };
}

function codeText(code, file) {
  const rows = file.text;
  const targets = new Array(rows.length).fill(null);
  for (const [begin, end, line, kernel, nodes, others] of file.ranges) {
    let target = { kind: "line", index: line };
    if (nodes.length) target = { kind: "nodes", index: nodes };
    else if (line === null) target = kernel === null ? null : { kind: "kernel", index: kernel };
    if (others.length) target = { kind: "kernels", index: [kernel, ...others] };
    targets.fill(target, begin - 1, end);
  }
  return {
    name: `${code.emitter}: ${file.path}`,
    rows,
    language: languageOf(file.path),
    targetAt: (row) => targets[row],
    stateOf: (row, lit) => stateOfTarget(targets[row], lit),
  };
}

function refusedText(code) {
  const reason = `The ${code.emitter} emitter refuses the program: ${code.refusals.join("; ")}`;
  return { name: code.emitter, rows: [], reason, targetAt: () => null, stateOf: () => "" };
}

// A text for a pane that has none.
function missingText(reason) {
  return { name: "", rows: [], reason, targetAt: () => null, stateOf: () => "" };
}
