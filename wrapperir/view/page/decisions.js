"use strict";

// What the lowering decided about nodes, and why.
function decisionList(section, view, decisions) {
  const list = new TargetList(section.querySelector(".listing"), view, (element, { index }) => {
    addSpan(element, decisions.kind[index], "cell kind").dataset.kind = decisions.kind[index];
    const bytes = decisions.bytes[index];
    addSpan(element, bytes === null ? "" : formatBytes(bytes), "cell");
    addSpan(element, decisions.subject[index], "cell name");
    addSpan(element, decisions.reason[index], "cell reason");
  });
  list.show(
    decisions.kind.map((_, index) => ({ index, target: { kind: "nodes", index: decisions.nodes[index] } })),
  );
  return list;
}
