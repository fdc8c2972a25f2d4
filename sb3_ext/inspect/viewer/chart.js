"use strict";
const COLOURS = ["#1f6feb", "#d1572b", "#2da44e", "#8250df", "#bf8700", "#cf222e", "#0b7285", "#6e7781"];
const LEGEND_ROW = 16;

/** A round distance between about n ticks. */
function tickStep(low, high, n) {
  const rough = (high - low) / n, power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10, 20].find((factor) => factor * power >= rough);
}

function ticks(low, high, step) {
  const first = Math.ceil(low / step - 1e-6), last = Math.floor(high / step + 1e-6);
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

function tickText(value) {
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-4 || size >= 1e8) ? value.toExponential() : value.toLocaleString("en", { maximumFractionDigits: 12 });
}

/** Where each name stands, in as many rows as they need. */
function legendPlaces(draw, lines, left, right) {
  let x = left, row = 0;
  const places = lines.map((line) => {
    const width = draw.measureText(line.name).width + 38;
    if (x > left && x + width > right) { x = left; row += 1; }
    x += width;
    return { x: x - width, y: 13 + LEGEND_ROW * row };
  });
  return { places, height: LEGEND_ROW * (row + 1) };
}

/** Lines over steps, each {name, x, y, colour, isDashed}, with an optional cursor and level. Returns x at a pixel. */
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
  const yStep = tickStep(low, high, 5);
  low = Math.floor(low / yStep + 1e-6) * yStep; high = Math.ceil(high / yStep - 1e-6) * yStep;
  let first = Math.min(...xs), last = Math.max(...xs);
  if (first === last) { first -= 1; last += 1; }
  const left = 66, right = width - 28, bottom = height - 34;
  const legend = legendPlaces(draw, drawn, left, right), top = legend.height + 8;
  const atX = (x) => left + (right - left) * (x - first) / (last - first);
  const atY = (y) => bottom - (bottom - top) * (y - low) / (high - low);
  const stroke = (...points) => { draw.beginPath(); points.forEach(([x, y]) => draw.lineTo(x, y)); draw.stroke(); };
  draw.strokeStyle = "#e5e9ee"; draw.fillStyle = "#5d6b7a"; draw.textAlign = "right";
  for (const y of ticks(low, high, yStep)) { stroke([left, atY(y)], [right, atY(y)]); draw.fillText(tickText(y), left - 6, atY(y) + 4); }
  draw.textAlign = "center";
  for (const x of ticks(first, last, Math.max(tickStep(first, last, 6), 1))) { stroke([atX(x), bottom], [atX(x), bottom + 4]); draw.fillText(tickText(x), atX(x), bottom + 15); }
  draw.fillText("step", (left + right) / 2, height - 5);
  if (level !== null) { draw.setLineDash([2, 4]); draw.strokeStyle = "#6e7781"; stroke([left, atY(level)], [right, atY(level)]); }
  drawn.forEach((line, index) => {
    draw.strokeStyle = draw.fillStyle = line.colour || COLOURS[index % COLOURS.length];
    draw.lineWidth = 1.5; draw.setLineDash(line.isDashed ? [6, 4] : []); draw.textAlign = "left";
    const { x, y } = legend.places[index];
    stroke([x, y - 4], [x + 18, y - 4]); draw.fillText(line.name, x + 22, y);
    drawLine(draw, line, atX, atY);
  });
  draw.setLineDash([]);
  if (cursor !== null) { draw.strokeStyle = "#1d2733"; draw.lineWidth = 1; stroke([atX(cursor), top], [atX(cursor), bottom]); }
  return (pixel) => first + (last - first) * Math.min(Math.max((pixel - left) / (right - left), 0), 1);
}

/** With gaps where there is no value, and dots where there are few. */
function drawLine(draw, line, atX, atY) {
  let isDown = false;
  draw.beginPath();
  line.y.forEach((y, i) => {
    if (y !== null) draw[isDown ? "lineTo" : "moveTo"](atX(line.x[i]), atY(y));
    isDown = y !== null;
  });
  draw.stroke();
  if (line.y.length > 40) return;
  line.y.forEach((y, i) => { if (y !== null) { draw.beginPath(); draw.arc(atX(line.x[i]), atY(y), 2.5, 0, 7); draw.fill(); } });
}
