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
    weightOf: (row, lit) => links.innerNodes(unlinkedAt(row).index).filter((node) => lit.nodes.has(node)).length,
  };
}

function programText(links, rows) {
  const { kernels } = links;
  const targets = rows.map((_, row) => links.atRow(row + 1));
  const sourceRow = (row, kernel) => row + 1 - (kernels.source[kernel] || Infinity);
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
    ...kernelRows(links, targets, sourceRow),
  };
}

// The targets and states of rows, where those of a kernel are rows of its source: `sourceRow`
// says which one, or a negative number.
function kernelRows(links, targets, sourceRow) {
  const isKernel = (row) => targets[row]?.kind === "kernel";
  const own = (row) => sourceRow(row, targets[row].index);
  return {
    targetAt: (row) => (isKernel(row) ? links.atKernelRow(targets[row].index, own(row)) : targets[row]),
    stateOf: (row, lit) =>
      isKernel(row) ? links.stateOfKernelRow(targets[row].index, own(row), lit) : stateOfTarget(targets[row], lit),
    noteAt: (row, lit) => (isKernel(row) && own(row) === links.kernels.own[targets[row].index] && lit.missing.get(targets[row].index)) || "",
  };
}

function codeText(links, code, file) {
  const rows = file.text;
  const targets = new Array(rows.length).fill(null);
  const sources = new Array(rows.length).fill(Infinity);
  for (const [begin, end, line, kernel, nodes, others, source] of file.ranges) {
    let target = { kind: "line", index: line };
    const kernels = kernel === null ? [] : [kernel, ...others];
    if (nodes.length) target = kernels.length ? { kind: "nodes", index: nodes, kernels } : { kind: "nodes", index: nodes };
    else if (kernels.length > 1) target = { kind: "kernels", index: kernels };
    else if (line === null) target = kernel === null ? null : { kind: "kernel", index: kernel };
    targets.fill(target, begin - 1, end);
    if (source) sources.fill(source, begin - 1, end);
  }
  return {
    name: `${code.emitter}: ${file.path}`,
    rows,
    language: languageOf(file.path),
    ...kernelRows(links, targets, (row) => row + 1 - sources[row]),
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
