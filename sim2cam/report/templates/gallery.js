"use strict";
const queryAll = (selector, root = document) => [...root.querySelectorAll(selector)];
const byId = (id) => document.getElementById(id);
const samples = queryAll(".sample");
const filters = byId("filters");

function readValue(id) {
  const field = byId(id);
  return field ? field.value : "";
}

function readRange(name) {
  const low = readValue(`${name}-from`), high = readValue(`${name}-to`);
  return [low === "" ? -Infinity : Number(low), high === "" ? Infinity : Number(high)];
}

function makeBoxFilter() {
  const category = readValue("category");
  const [low, high] = readRange("visible");
  const kinds = queryAll(".kind");
  const shownKinds = new Set(kinds.filter((box) => box.checked).map((box) => box.value));
  const hasRange = low > -Infinity || high < Infinity;
  if (category === "" && !hasRange && shownKinds.size === kinds.length) return null;
  return (box) => {
    const { category: first, otherCategory: second, visible, kind } = box.dataset;
    if (category !== "" && first !== category && second !== category) return false;
    if (kinds.length && !shownKinds.has(kind)) return false;
    return !hasRange || (visible !== "" && Number(visible) >= low && Number(visible) <= high);
  };
}

// An object is missed while the confidence is above that of the best detection that covers it.
function isShownAt(confidence, box) {
  const { score, coveredScore } = box.dataset;
  if (coveredScore !== undefined) return coveredScore === "" || Number(coveredScore) < confidence;
  return score === undefined || Number(score) >= confidence;
}

function applyFilters() {
  const confidence = byId("confidence") ? Number(byId("confidence").value) : 0;
  if (byId("confidence")) byId("confidence-value").textContent = confidence.toFixed(2);
  const origin = readValue("origin");
  const [minCount, maxCount] = readRange("objects");
  const matches = makeBoxFilter();
  let sampleCount = 0, boxCount = 0;
  for (const sample of samples) {
    let matchCount = 0;
    for (const box of queryAll(".object", sample)) {
      const isShown = isShownAt(confidence, box), isMatch = !matches || matches(box);
      box.classList.toggle("below-confidence", !isShown);
      box.classList.toggle("dimmed", !isMatch);
      if (isShown && isMatch && box.tagName === "g" && !box.classList.contains("ignored")) matchCount += 1;
    }
    const count = Number(sample.dataset.objects);
    const isVisible = (origin === "" || sample.dataset.origin === origin)
      && count >= minCount && count <= maxCount && (!matches || matchCount > 0);
    sample.hidden = !isVisible;
    if (isVisible) { sampleCount += 1; boxCount += matchCount; }
  }
  const { samplesUnit, boxesUnit } = byId("count").dataset;
  byId("count").textContent = `${sampleCount} of ${samples.length} ${samplesUnit}, ${boxCount} ${boxesUnit}`;
}

const dialog = byId("large");
let current = null;

function enlarge(sample) {
  current = sample;
  const frame = document.createElement("div");
  frame.className = "frame";
  frame.style.cssText = sample.querySelector(".frame").style.cssText;
  frame.append(...[...sample.querySelector(".frame").children].map((child) => child.cloneNode(true)));
  const details = sample.querySelector("template");
  byId("large-name").textContent = sample.dataset.name;
  dialog.querySelector(".image").replaceChildren(frame);
  dialog.querySelector(".objects").replaceChildren(...(details ? [details.content.cloneNode(true)] : []));
  if (!dialog.open) dialog.showModal();
}

function showNeighbour(offset) {
  const visible = samples.filter((sample) => !sample.hidden);
  const index = visible.indexOf(current) + offset;
  if (index >= 0 && index < visible.length) enlarge(visible[index]);
}

function showKind(kind) {
  queryAll(".kind").forEach((box) => { box.checked = box.value === kind; });
  applyFilters();
  filters.scrollIntoView();
}

samples.forEach((sample) => {
  sample.querySelector(".frame").addEventListener("click", () => enlarge(sample));
});
queryAll("button[data-show-kind]").forEach((button) => {
  button.addEventListener("click", () => showKind(button.dataset.showKind));
});
if (dialog) {
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
}
if (filters) {
  filters.addEventListener("input", applyFilters);
  filters.addEventListener("submit", (event) => event.preventDefault());
  filters.addEventListener("reset", () => setTimeout(applyFilters));
  applyFilters();
}
