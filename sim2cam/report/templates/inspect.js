"use strict";
const find = (selector, within = document) => [...within.querySelectorAll(selector)];
const byId = (id) => document.getElementById(id);
const samples = find(".sample");
const filters = byId("filters");

function limits(low, high) {
  const from = byId(low).value, to = byId(high).value;
  return [from === "" ? -Infinity : Number(from), to === "" ? Infinity : Number(to)];
}

function objectFilter() {
  const category = byId("category").value;
  const [low, high] = limits("visible-from", "visible-to");
  const anyFraction = low === -Infinity && high === Infinity;
  if (category === "" && anyFraction) return null;
  return (mark) => {
    if (category !== "" && mark.dataset.category !== category) return false;
    if (anyFraction) return true;
    const fraction = Number(mark.dataset.visible);
    return mark.dataset.visible !== "" && fraction >= low && fraction <= high;
  };
}

function apply() {
  const origin = byId("origin").value;
  const [fewest, most] = limits("objects-from", "objects-to");
  const matches = objectFilter();
  let shown = 0, objects = 0;
  for (const sample of samples) {
    const count = Number(sample.dataset.objects);
    let hits = count;
    if (matches) {
      hits = 0;
      for (const mark of find(".object", sample)) {
        const hit = matches(mark);
        mark.classList.toggle("dimmed", !hit);
        if (hit && mark.tagName === "g" && !mark.classList.contains("ignored")) hits += 1;
      }
    } else {
      find(".dimmed", sample).forEach((mark) => mark.classList.remove("dimmed"));
    }
    const kept = (origin === "" || sample.dataset.origin === origin)
      && count >= fewest && count <= most && (!matches || hits > 0);
    sample.hidden = !kept;
    if (kept) { shown += 1; objects += hits; }
  }
  byId("count").textContent = `${shown} of ${samples.length} samples, ${objects} objects`;
}

const large = byId("large");
let current = null;

function enlarge(sample) {
  current = sample;
  const frame = document.createElement("div");
  frame.className = "frame";
  frame.style.cssText = sample.querySelector(".frame").style.cssText;
  frame.append(...[...sample.querySelector(".frame").children].map((child) => child.cloneNode(true)));
  const facts = sample.querySelector("template").content.cloneNode(true);
  byId("large-name").textContent = sample.dataset.name;
  large.querySelector(".picture").replaceChildren(frame);
  large.querySelector(".objects").replaceChildren(facts);
  if (!large.open) large.showModal();
}

function step(by) {
  const kept = samples.filter((sample) => !sample.hidden);
  const index = kept.indexOf(current) + by;
  if (index >= 0 && index < kept.length) enlarge(kept[index]);
}

samples.forEach((sample) => {
  sample.querySelector(".frame").addEventListener("click", () => enlarge(sample));
});
byId("previous").addEventListener("click", () => step(-1));
byId("next").addEventListener("click", () => step(1));
byId("close").addEventListener("click", () => large.close());
large.addEventListener("click", (event) => { if (event.target === large) large.close(); });
large.addEventListener("close", () => {
  if (current) current.querySelector(".frame").focus();
});
large.addEventListener("keydown", (event) => {
  if (event.key === "ArrowLeft") step(-1);
  if (event.key === "ArrowRight") step(1);
});
filters.addEventListener("input", apply);
filters.addEventListener("submit", (event) => event.preventDefault());
filters.addEventListener("reset", () => setTimeout(apply));
apply();
