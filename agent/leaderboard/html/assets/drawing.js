// Speedup over turns: a point for each correct attempt, a cross for each failure, lines through conversations.

const DRAWN = 2000;
const AREA = { width: 720, height: 258, left: 86, right: 14, top: 12, bottom: 74 };

function overTurns(section, attempts) {
  const rows = attempts.slice(0, DRAWN);
  const byTurn = rows.some((row) => row.turn > 0);
  const models = [...new Set(rows.map((row) => row.model))];
  const hue = (row) => `h${Math.min(models.indexOf(row.model), 8)}`;
  const at = (row, order) => (byTurn ? row.turn : order);
  const furthest = Math.max(1, ...rows.map(at));
  const speeds = rows.filter((row) => row.speedup !== null).map((row) => Math.log2(row.speedup));
  const low = Math.floor(Math.min(-1, ...speeds)),
    high = Math.ceil(Math.max(1, ...speeds));
  const floor = AREA.height - AREA.bottom,
    failed = floor + 27;
  // Attempts of one turn lie side by side rather than on top of each other.
  const lanes = new Map();
  const x = (value) => AREA.left + 18 + ((AREA.width - AREA.left - AREA.right - 36) * value) / furthest;
  const y = (value) => floor - ((floor - AREA.top) * (value - low)) / (high - low);
  const spread = (row, order) => {
    const key = at(row, order),
      lane = lanes.get(key) ?? 0;
    lanes.set(key, lane + 1);
    const side = (((lane % 9) + 1) >> 1) * (lane % 2 ? 1 : -1);
    return x(key) + (byTurn ? side * Math.min(6, 180 / (furthest + 1) / 9) : 0);
  };

  const marks = [],
    trails = new Map();
  rows.forEach((row, order) => {
    const across = spread(row, order),
      title = svg(
        "title",
        {},
        `${row.model}, sample ${row.sample}, turn ${row.turn}: ${row.status}${row.speedup === null ? "" : ` ${times(row.speedup)}`}`,
      );
    const up = row.speedup === null ? failed : y(Math.log2(row.speedup)),
      key = [row.run, row.model, row.strategy, row.sample].join("\n");
    trails.set(key, [...(trails.get(key) ?? []), [across, up, hue(row)]]);
    if (row.speedup === null)
      marks.push(
        svg(
          "path",
          { class: `cross ${hue(row)}`, d: `M${across - 3.5} ${failed - 3.5}l7 7m0 -7l-7 7` },
          title,
        ),
      );
    else marks.push(svg("circle", { class: `point ${hue(row)}`, cx: across, cy: up, r: 4.5 }, title));
  });
  const lines = [...trails.values()]
    .filter((points) => byTurn && points.length > 1)
    .map((points) =>
      svg("path", {
        class: `trail ${points[0][2]}`,
        d: `M${points.map(([across, up]) => `${across} ${up}`).join("L")}`,
      }),
    );
  const label = `${byTurn ? "Speedup over turns" : "Speedup of one attempt after the other"}: ${count(rows.length, "attempt")}, ${speeds.length} correct${section.best ? `, the best ${times(section.best.speedup)}` : ""}`;
  return h(
    "figure",
    { class: "chart" },
    h(
      "figcaption",
      {},
      `${label}${rows.length < attempts.length ? `; the first ${whole(DRAWN)} of ${whole(attempts.length)} are drawn` : ""}`,
    ),
    svg(
      "svg",
      { viewBox: `0 0 ${AREA.width} ${AREA.height}`, role: "img", "aria-label": label },
      axes(low, high, furthest, byTurn, x, y, failed),
      lines,
      marks,
    ),
    models.length > 1
      ? h(
          "ul",
          { class: "legend" },
          models.map((model, number) =>
            h(
              "li",
              {},
              h("span", { class: `key h${Math.min(number, 8)}`, "aria-hidden": "true" }),
              h("bdi", {}, model),
            ),
          ),
        )
      : null,
  );
}

function axes(low, high, furthest, byTurn, x, y, failed) {
  const found = [],
    right = AREA.width - AREA.right;
  const every = Math.ceil((high - low) / 8);
  for (let power = low; power <= high; power += every) {
    const words = power < -2 ? `1/${2 ** -power}×` : `${2 ** power}×`;
    found.push(
      svg("line", {
        class: power === 0 ? "one" : "grid",
        x1: AREA.left,
        x2: right,
        y1: y(power),
        y2: y(power),
      }),
      svg("text", { class: "tick", x: AREA.left - 8, y: y(power) + 4, "text-anchor": "end" }, words),
    );
  }
  found.push(svg("text", { class: "tick", x: AREA.left - 8, y: failed + 4, "text-anchor": "end" }, "failed"));
  const step = Math.max(1, Math.ceil((furthest + 1) / 16));
  for (let value = 0; value <= furthest; value += step) {
    found.push(
      svg(
        "text",
        { class: "tick", x: x(value), y: AREA.height - 24, "text-anchor": "middle" },
        String(value),
      ),
    );
  }
  found.push(
    svg(
      "text",
      { class: "tick", x: (AREA.left + right) / 2, y: AREA.height - 5, "text-anchor": "middle" },
      byTurn ? "turn" : "attempt",
    ),
  );
  return found;
}
