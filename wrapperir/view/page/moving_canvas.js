"use strict";

const SCALES = [0.1, 2]; // the smallest and the largest
const ZOOM = 1.25; // of a step
const FAR = 4; // pixels that the pointer moves in what is no click

// A place for a drawing, which is moved with the pointer or the bars; the wheel with Ctrl, and
// buttons, change its scale.
class MovingCanvas {
  constructor(parent) {
    this.scale = 1;
    const scales = addSpan(parent, "", "scales");
    this.element = document.createElement("div");
    this.element.className = "canvas";
    parent.append(this.element);
    const add = (text, name, action) => (addButton(scales, text, action).ariaLabel = name);
    add("−", "smaller", () => this.zoom(this.scale / ZOOM));
    add("+", "larger", () => this.zoom(this.scale * ZOOM));
    add("fit", "all of the drawing", () => this.fit());
    this.addMoving();
  }

  clear() {
    this.element.replaceChildren();
    this.extent = null;
  }

  // Add an empty drawing of this width and height, and return it.
  add({ width, height }) {
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.extent = { width, height };
    this.element.append(svg);
    this.size();
    return svg;
  }

  addMoving() {
    const { element: canvas } = this;
    let from = null;
    canvas.addEventListener("pointerdown", ({ button, clientX, clientY }) => {
      if (button === 0) from = { left: canvas.scrollLeft + clientX, top: canvas.scrollTop + clientY, clientX, clientY };
    });
    canvas.addEventListener("pointermove", ({ buttons, clientX, clientY, pointerId }) => {
      if (!(buttons & 1)) from = null;
      if (!from || (!from.moves && Math.hypot(clientX - from.clientX, clientY - from.clientY) < FAR)) return;
      from.moves = true;
      canvas.setPointerCapture(pointerId); // so that what it ends on is not clicked
      canvas.scrollTo(from.left - clientX, from.top - clientY);
    });
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      this.zoom(this.scale * ZOOM ** (-event.deltaY / 100), event);
    }, { passive: false });
  }

  // Change the scale; the place under the pointer, or in the middle, stays where it is.
  zoom(scale, pointer = null) {
    const { element: canvas } = this;
    const { left, top, width, height } = canvas.getBoundingClientRect();
    const [x, y] = pointer ? [pointer.clientX - left, pointer.clientY - top] : [width / 2, height / 2];
    const old = this.scale;
    this.scale = Math.min(SCALES[1], Math.max(SCALES[0], scale));
    const place = (scroll, at) => ((scroll + at) * this.scale) / old - at;
    const [toLeft, toTop] = [place(canvas.scrollLeft, x), place(canvas.scrollTop, y)];
    this.size();
    canvas.scrollTo(toLeft, toTop);
  }

  fit() {
    if (!this.extent) return;
    const { clientWidth, clientHeight } = this.element;
    this.zoom(Math.min(1, clientWidth / this.extent.width, clientHeight / this.extent.height));
  }

  // Give the drawing the size that its scale says.
  size() {
    const svg = this.element.querySelector("svg");
    if (!svg) return;
    svg.style.width = `${this.extent.width * this.scale}px`;
    svg.style.height = `${this.extent.height * this.scale}px`;
  }

  // Move what is around a place of the drawing into sight.
  reveal({ x, y, width, height }) {
    const { element, scale } = this;
    const inSight = (middle, size, scroll, room) => middle - size / 2 >= scroll && middle + size / 2 <= scroll + room;
    const [left, top, wide, high] = [x, y, width, height].map((each) => each * scale);
    if (inSight(left, wide, element.scrollLeft, element.clientWidth) && inSight(top, high, element.scrollTop, element.clientHeight)) return;
    element.scrollTo(left - element.clientWidth / 2, top - element.clientHeight / 2);
  }
}
