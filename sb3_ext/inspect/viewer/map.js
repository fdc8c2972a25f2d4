"use strict";
const DIRECTIONS = {
  left: [-1, 0], west: [-1, 0], right: [1, 0], east: [1, 0], up: [0, -1], north: [0, -1], down: [0, 1], south: [0, 1],
};

function heat(share) {
  const stops = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1), index = Math.min(Math.floor(place), stops.length - 2);
  const mixed = stops[index].map((from, i) => Math.round(from + (stops[index + 1][i] - from) * (place - index)));
  return `rgb(${mixed.join(",")})`;
}

/** The lowest and the highest value of maps, without states in which an episode has ended. */
function valueRange(maps) {
  const values = maps.flatMap((map) => map.values.filter((_, state) => !(map.terminal || []).includes(state)));
  return [Math.min(...values), Math.max(...values)];
}

function showScale(box, [low, high]) { box.replaceChildren(`value ${shortNumber(low)} `, element("i"), ` ${shortNumber(high)}`); }

/** Values as colours and the policy as arrows. Of a task with groups, those states that share the group of `state`. */
function drawMap(canvas, map, actions, state = null, [low, high] = valueRange([map])) {
  const draw = canvas.getContext("2d"), { rows, columns, groups } = map;
  const space = map.axes ? 18 : 0;
  const size = Math.min((canvas.width - space) / columns, (canvas.height - space) / rows);
  const group = state === null ? 0 : state % groups;
  draw.clearRect(0, 0, canvas.width, canvas.height);
  for (let cell = 0; cell < rows * columns; cell++) {
    const index = cell * groups + group, x = space + (cell % columns) * size, y = Math.floor(cell / columns) * size;
    const share = (map.values[index] - low) / Math.max(high - low, 1e-9), isTerminal = (map.terminal || []).includes(index);
    draw.fillStyle = isTerminal ? "#c9d1d9" : heat(share); draw.fillRect(x, y, size - 1, size - 1);
    draw.strokeStyle = draw.fillStyle = isTerminal || share > 0.6 ? "#1d2733" : "#fff";
    if (!isTerminal) drawPolicy(draw, map.probabilities[index], actions, x + size / 2, y + size / 2, size * 0.42);
    if (map.letters) { draw.font = `${Math.round(size / 5)}px sans-serif`; draw.fillText(map.letters[Math.floor(cell / columns)][cell % columns], x + 4, y + size / 5); }
    if (state !== null && index === state) { draw.lineWidth = 4; draw.strokeStyle = "#cf222e"; draw.strokeRect(x + 2, y + 2, size - 5, size - 5); draw.lineWidth = 1; }
  }
  if (map.axes) {
    draw.fillStyle = "#5d6b7a"; draw.font = "11px sans-serif"; draw.fillText(map.axes.x, space, rows * size + 14);
    draw.save(); draw.translate(12, rows * size); draw.rotate(-Math.PI / 2); draw.fillText(map.axes.y, 0, 0); draw.restore();
  }
}

function drawPolicy(draw, probabilities, actions, x, y, reach) {
  probabilities.forEach((probability, action) => {
    const direction = DIRECTIONS[(actions[action] || "").toLowerCase()];
    if (!direction || probability < 0.02) return;
    draw.lineWidth = 1 + 2 * probability;
    draw.beginPath(); draw.moveTo(x, y);
    draw.lineTo(x + direction[0] * reach * probability, y + direction[1] * reach * probability); draw.stroke();
    draw.beginPath(); draw.arc(x + direction[0] * reach * probability, y + direction[1] * reach * probability, 1.5 + 1.5 * probability, 0, 7); draw.fill();
  });
  draw.lineWidth = 1;
}
