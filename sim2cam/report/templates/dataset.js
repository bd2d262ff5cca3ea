"use strict";
const queryAll = (selector, root = document) => [...root.querySelectorAll(selector)];
const byId = (id) => document.getElementById(id);
const samples = queryAll(".sample");
const filters = byId("filters");

function readRange(lowId, highId) {
  const low = byId(lowId).value, high = byId(highId).value;
  return [low === "" ? -Infinity : Number(low), high === "" ? Infinity : Number(high)];
}

function makeObjectFilter() {
  const category = byId("category").value;
  const [low, high] = readRange("visible-from", "visible-to");
  const isUnrestricted = low === -Infinity && high === Infinity;
  if (category === "" && isUnrestricted) return null;
  return (element) => {
    if (category !== "" && element.dataset.category !== category) return false;
    if (isUnrestricted) return true;
    const fraction = Number(element.dataset.visible);
    return element.dataset.visible !== "" && fraction >= low && fraction <= high;
  };
}

function applyFilters() {
  const origin = byId("origin").value;
  const [minCount, maxCount] = readRange("objects-from", "objects-to");
  const matches = makeObjectFilter();
  let sampleCount = 0, objectCount = 0;
  for (const sample of samples) {
    const count = Number(sample.dataset.objects);
    let matchCount = count;
    if (matches) {
      matchCount = 0;
      for (const element of queryAll(".object", sample)) {
        const isMatch = matches(element);
        element.classList.toggle("dimmed", !isMatch);
        if (isMatch && element.tagName === "g" && !element.classList.contains("ignored")) matchCount += 1;
      }
    } else {
      queryAll(".dimmed", sample).forEach((element) => element.classList.remove("dimmed"));
    }
    const isVisible = (origin === "" || sample.dataset.origin === origin)
      && count >= minCount && count <= maxCount && (!matches || matchCount > 0);
    sample.hidden = !isVisible;
    if (isVisible) { sampleCount += 1; objectCount += matchCount; }
  }
  byId("count").textContent = `${sampleCount} of ${samples.length} samples, ${objectCount} objects`;
}

const dialog = byId("large");
let current = null;

function enlarge(sample) {
  current = sample;
  const frame = document.createElement("div");
  frame.className = "frame";
  frame.style.cssText = sample.querySelector(".frame").style.cssText;
  frame.append(...[...sample.querySelector(".frame").children].map((child) => child.cloneNode(true)));
  const details = sample.querySelector("template").content.cloneNode(true);
  byId("large-name").textContent = sample.dataset.name;
  dialog.querySelector(".image").replaceChildren(frame);
  dialog.querySelector(".objects").replaceChildren(details);
  if (!dialog.open) dialog.showModal();
}

function showNeighbour(offset) {
  const visible = samples.filter((sample) => !sample.hidden);
  const index = visible.indexOf(current) + offset;
  if (index >= 0 && index < visible.length) enlarge(visible[index]);
}

samples.forEach((sample) => {
  sample.querySelector(".frame").addEventListener("click", () => enlarge(sample));
});
byId("previous").addEventListener("click", () => showNeighbour(-1));
byId("next").addEventListener("click", () => showNeighbour(1));
byId("close").addEventListener("click", () => dialog.close());
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
dialog.addEventListener("close", () => {
  if (current) current.querySelector(".frame").focus();
});
dialog.addEventListener("keydown", (event) => {
  if (event.key === "ArrowLeft") showNeighbour(-1);
  if (event.key === "ArrowRight") showNeighbour(1);
});
filters.addEventListener("input", applyFilters);
filters.addEventListener("submit", (event) => event.preventDefault());
filters.addEventListener("reset", () => setTimeout(applyFilters));
applyFilters();
