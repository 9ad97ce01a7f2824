"use strict";

// What was decided about nodes, and why; decisions of the same words together.
function decisionList(section, view, decisions) {
  const list = new TargetList(section.querySelector(".listing"), view, (element, { target, members }) => {
    const { index } = target;
    addSpan(element, decisions.kind[index], "cell kind").dataset.kind = decisions.kind[index];
    const bytes = decisions.bytes[index];
    addSpan(element, bytes === null ? "" : formatBytes(bytes), "cell");
    addSpan(element, decisions.reason[index], "cell reason");
    addSpan(element, decisions.subject[index] + (members?.length ? `, ${members.length} times` : ""), "cell name");
  });
  const row = (index, members = []) => ({ target: { kind: "decision", index }, members });
  const words = (text) => text.replace(/_\d+(?=_|\b)/g, "");
  const keyOf = (index) => [decisions.kind, decisions.subject, decisions.reason].map((each) => words(each[index])).join("\n");
  const groups = groupBy([...decisions.kind.keys()], keyOf);
  list.show(groups.map(([first, ...others]) => row(first, others.length ? [first, ...others].map((index) => row(index)) : [])));
  return list;
}
