"use strict";
const stacks = [...document.querySelectorAll("details")];
const setAll = (open) => stacks.forEach((stack) => { stack.open = open; });
const move = (step) => {
  const index = stacks.findIndex((stack) => stack.contains(document.activeElement));
  const next = stacks[Math.min(Math.max(index + step, 0), stacks.length - 1)];
  if (next) next.querySelector("summary").focus();
};
const keys = {
  j: () => move(1),
  k: () => move(-1),
  e: () => setAll(true),
  c: () => setAll(false),
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || !(event.key in keys)) return;
  event.preventDefault();
  keys[event.key]();
});
