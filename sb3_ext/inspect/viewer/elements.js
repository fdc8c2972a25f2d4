"use strict";
const $ = (id) => document.getElementById(id);

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key in made && key !== "list") made[key] = value; else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

/** Options as [value, text]. Nothing happens if they are the same as before, so that a list that is open stays as it is. */
function fillSelect(select, wanted) {
  const key = JSON.stringify(wanted);
  if (select.dataset.filled === key) return;
  const chosen = new Set([...select.selectedOptions].map((option) => option.value));
  select.replaceChildren(...wanted.map(([value, text]) => element("option", { value, textContent: text, selected: chosen.has(value) })));
  select.dataset.filled = key;
}

/** A text as nodes: what is between backticks is code. */
function withCode(text) {
  return text.split("`").map((part, index) => index % 2 ? element("code", { textContent: part }) : part);
}

function shortNumber(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return value.toLocaleString("en");
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(2) : value.toFixed(size < 1 ? 4 : 2);
}

/** Four significant digits, but all digits before the decimal point: as in reports. */
function scoreText(value) {
  if (value === null || value === undefined) return "–";
  const rounded = Math.abs(value) >= 1000 ? Math.round(value) : Number(value.toPrecision(4));
  return rounded.toLocaleString("en", { maximumFractionDigits: 12 });
}
