"use strict";
const COLOURS = ["#1f6feb", "#d1572b", "#2da44e", "#8250df", "#bf8700", "#cf222e", "#0b7285", "#6e7781"];
const $ = (id) => document.getElementById(id);

function shortNumber(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return value.toLocaleString("en");
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(2) : value.toFixed(size < 1 ? 4 : 2);
}

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key in made && key !== "list") made[key] = value; else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

/** Lines over a common x axis, each [{name, x, y, colour}], with an optional cursor and level. Returns x at a pixel. */
function drawChart(canvas, lines, { cursor = null, level = null } = {}) {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth || 600, height = canvas.clientHeight || 220;
  canvas.width = width * ratio; canvas.height = height * ratio;
  const draw = canvas.getContext("2d");
  draw.scale(ratio, ratio);
  draw.clearRect(0, 0, width, height);
  draw.font = "11px system-ui, sans-serif";
  const drawn = lines.filter((line) => line.x.length);
  const xs = drawn.flatMap((line) => [line.x[0], line.x[line.x.length - 1]]);
  let low = level ?? Infinity, high = level ?? -Infinity;
  for (const line of drawn) for (const y of line.y) if (y !== null) { low = Math.min(low, y); high = Math.max(high, y); }
  if (!xs.length || low === Infinity) { draw.fillText("no values yet", 16, 24); return () => null; }
  if (low === high) { low -= 1; high += 1; }
  const left = 58, right = width - 12, top = 22, bottom = height - 22;
  const first = Math.min(...xs), last = Math.max(...xs, first + 1e-9);
  const atX = (x) => left + (right - left) * (x - first) / (last - first);
  const atY = (y) => bottom - (bottom - top) * (y - low) / (high - low);
  draw.strokeStyle = "#e5e9ee"; draw.fillStyle = "#5d6b7a";
  for (let i = 0; i <= 4; i++) {
    const y = low + (high - low) * i / 4, x = first + (last - first) * i / 4;
    draw.beginPath(); draw.moveTo(left, atY(y)); draw.lineTo(right, atY(y)); draw.stroke();
    draw.textAlign = "right"; draw.fillText(shortNumber(y), left - 6, atY(y) + 4);
    draw.textAlign = i === 4 ? "right" : "center"; draw.fillText(shortNumber(Math.round(x)), atX(x), height - 6);
  }
  if (level !== null) {
    draw.setLineDash([5, 4]); draw.strokeStyle = "#6e7781";
    draw.beginPath(); draw.moveTo(left, atY(level)); draw.lineTo(right, atY(level)); draw.stroke(); draw.setLineDash([]);
  }
  let at = left;
  drawn.forEach((line, index) => {
    const colour = line.colour || COLOURS[index % COLOURS.length];
    draw.strokeStyle = draw.fillStyle = colour; draw.lineWidth = 1.5; draw.beginPath();
    let isDown = false;
    line.y.forEach((y, i) => {
      if (y === null) { isDown = false; return; }
      if (isDown) draw.lineTo(atX(line.x[i]), atY(y)); else draw.moveTo(atX(line.x[i]), atY(y));
      isDown = true;
    });
    draw.stroke();
    if (line.y.length <= 40) line.y.forEach((y, i) => { if (y !== null) { draw.beginPath(); draw.arc(atX(line.x[i]), atY(y), 2.5, 0, 7); draw.fill(); } });
    draw.textAlign = "left"; draw.fillText(line.name, at, 13); at += draw.measureText(line.name).width + 16;
  });
  if (cursor !== null) {
    draw.strokeStyle = "#1d2733"; draw.lineWidth = 1;
    draw.beginPath(); draw.moveTo(atX(cursor), top); draw.lineTo(atX(cursor), bottom); draw.stroke();
  }
  return (pixel) => first + (last - first) * Math.min(Math.max((pixel - left) / (right - left), 0), 1);
}
