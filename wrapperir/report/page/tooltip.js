"use strict";

function showTooltip(tooltip, event, lines) {
  tooltip.replaceChildren(
    ...lines.map((line) => {
      const element = document.createElement("div");
      element.textContent = line;
      return element;
    }),
  );
  tooltip.hidden = false;
  const { width, height } = tooltip.getBoundingClientRect();
  const right = event.clientX + 14 + width < window.innerWidth;
  const below = event.clientY + 14 + height < window.innerHeight;
  tooltip.style.left = `${Math.max(0, event.clientX + (right ? 14 : -14 - width))}px`;
  tooltip.style.top = `${Math.max(0, event.clientY + (below ? 14 : -14 - height))}px`;
}
