// Two runs side by side. What changed was decided, by the intervals, when the page was made.

const RISES = new Set(["newly solved", "better"]),
  FALLS = new Set(["newly lost", "worse"]);

function comparison(page, pair) {
  const value = page.values.get(pair.key),
    word = (number) => (number === null || number === undefined ? null : page.header.words[number]);
  if (!value) {
    return h(
      "p",
      { class: "muted" },
      "Left out to keep this page small: ",
      h("code", {}, `kernelwright leaderboard --compare ${pair.before} ${pair.after}`),
      " prints it.",
    );
  }
  const rows = value.rows.map(([problem, backend, hardware, terms, change, why, before, after]) => ({
    problem: word(problem),
    backend: word(backend),
    hardware: word(hardware),
    terms: word(terms),
    change: word(change),
    why: word(why),
    before,
    after,
  }));
  const order = value.counts.map(([change]) => change);
  const side = (one) =>
    one
      ? one[1] === null
        ? `0/${one[4]} correct`
        : speedup(one[1], one[2], one[3])
      : h("span", { class: "muted" }, "not tried");
  const sectionOf = (row) =>
    page.sections.find((one) => one.problem === row.problem && place(one) === place(row));
  const isMixed = new Set(rows.map(place)).size > 1;
  const columns = [
    {
      label: "problem",
      heads: true,
      key: (row) => row.problem,
      cell: (row) => {
        const section = sectionOf(row),
          name = named(row.problem);
        return section ? h("a", { href: address(section) }, name) : name;
      },
    },
    ...(isMixed
      ? [{ label: "backend, hardware, terms", class: "place", key: place, cell: (row) => h("bdi", {}, place(row)) }]
      : []),
    {
      label: "change",
      class: "nowrap",
      key: (row) => order.indexOf(row.change),
      cell: (row) =>
        h(
          "span",
          { class: RISES.has(row.change) ? "up" : FALLS.has(row.change) ? "down" : null },
          row.change,
        ),
    },
    { label: "before", number: true, key: (row) => row.before?.[1] ?? null, cell: (row) => side(row.before) },
    { label: "after", number: true, key: (row) => row.after?.[1] ?? null, cell: (row) => side(row.after) },
    {
      label: "after by",
      class: "name",
      key: (row) => word(row.after?.[0]),
      cell: (row) => (row.after && row.after[0] !== null ? h("bdi", {}, word(row.after[0])) : "–"),
    },
    { label: "why", class: "reason", key: (row) => row.why, cell: (row) => row.why },
  ];
  const filters = [
    {
      label: "text",
      placeholder: "problem, hardware",
      fits: (row, wanted) => has([row.problem, place(row)].join(" "), wanted),
    },
    {
      label: "change",
      options: options(rows.map((row) => row.change)),
      fits: (row, wanted) => row.change === wanted,
    },
  ];
  return [
    h(
      "ul",
      { class: "changes" },
      value.counts.map(([change, amount]) =>
        h(
          "li",
          {},
          h(
            "b",
            { class: amount && RISES.has(change) ? "up" : amount && FALLS.has(change) ? "down" : null },
            whole(amount),
          ),
          h("span", {}, change),
        ),
      ),
    ),
    list({
      caption: `Run ${pair.after} against ${pair.before}`,
      noun: "problem",
      columns,
      rows,
      filters,
      order: [isMixed ? 2 : 1, 1],
    }),
  ];
}

function compareView(page) {
  const words = page.header.words;
  const pairs = page.header.pairs.map(([key, before, after]) => ({
    key,
    before: words[before],
    after: words[after],
  }));
  const runs = list({
    caption: "Runs",
    noun: "run",
    rows: page.header.runs,
    columns: [
      { label: "run", heads: true, key: (row) => row.run, cell: (row) => h("code", {}, row.run) },
      {
        label: "models",
        key: (row) => row.models.join(", "),
        cell: (row) => h("bdi", {}, row.models.join(", ")),
      },
      { label: "backends", key: (row) => row.backends.join(", "), cell: (row) => row.backends.join(", ") },
      {
        label: "correct",
        number: true,
        key: (row) => row.passed,
        cell: (row) => `${whole(row.passed)}/${whole(row.attempts)}`,
      },
    ],
  });
  if (!pairs.length)
    return h("p", { class: "muted" }, "There is one run only; a second one can be compared with it.");
  const outcome = h("div", { id: "comparison" });
  const show = (number) => outcome.replaceChildren(...[comparison(page, pairs[number])].flat());
  const select = h(
    "select",
    { id: "pair", on: { change: (event) => show(Number(event.target.value)) } },
    pairs.map((pair, number) => h("option", { value: number }, `${pair.before} → ${pair.after}`)),
  );
  show(0);
  return [
    h(
      "p",
      { class: "muted" },
      "The best kernel of each problem in one run, against that in a later one. A difference is one only where the two 95 % intervals do not meet.",
    ),
    h("div", { class: "filters" }, h("label", {}, "runs", select)),
    outcome,
    h("details", {}, h("summary", {}, "Runs"), runs),
  ];
}
