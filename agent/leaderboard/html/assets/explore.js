// The lists of problems and of attempts, and what their rows are made of.

// Attempts come column by column; each becomes a record that knows its section.
function attemptsOf(page) {
  const columns = page.header.attempts;
  if (!columns.length) return [];
  const word = (number) => (number === null ? null : page.header.words[number]);
  return columns[0].map((_, place) => {
    const [
      section,
      model,
      strategy,
      run,
      sample,
      turn,
      ended,
      value,
      low,
      high,
      tokens,
      cost,
      id,
      flags,
      track,
    ] = columns.map((column) => column[place]);
    return {
      section: page.sections[section],
      place,
      model: word(model),
      strategy: word(strategy),
      run: word(run),
      sample,
      turn,
      status: word(ended),
      speedup: value,
      low,
      high,
      tokens,
      cost,
      id,
      isCheat: (flags & 1) > 0,
      isDoubted: (flags & 2) > 0,
      track: word(track),
    };
  });
}

function sectionsOf(page) {
  const word = (number) => (number === null ? null : page.header.words[number]);
  const kernel = (one) =>
    one && {
      ...one,
      model: word(one.model),
      strategy: word(one.strategy),
      run: word(one.run),
      status: word(one.status),
      track: word(one.track),
      unfit: word(one.unfit),
    };
  return page.header.sections.map((one) => ({
    ...one,
    problem: word(one.problem),
    level: word(one.level),
    backend: word(one.backend),
    hardware: word(one.hardware),
    terms: word(one.terms),
    statuses: one.statuses.map(([name, amount]) => [word(name), amount]),
    models: one.models.map(word),
    best: kernel(one.best),
    kernels: one.kernels.map(kernel),
    failures: one.failures.map(kernel),
  }));
}

const options = (values) =>
  [...new Set(values)]
    .filter((value) => value !== null)
    .sort((one, other) => compare(one, other))
    .map((value) => [value, value]);
const has = (text, wanted) =>
  wanted
    .toLowerCase()
    .split(/\s+/)
    .every((part) => text.toLowerCase().includes(part));
const place = (section) => [section.backend, section.hardware, section.terms].join(" · ");
const address = (section) => `${section.page && !section.here ? section.page : ""}#s${section.n}`;

function marks(section) {
  const found = [];
  if (section.flaws.length)
    found.push(h("span", { class: "mark warn", title: section.flaws.join(", ") }, "flawed problem"));
  if (section.best?.doubted)
    found.push(
      h(
        "span",
        { class: "mark warn", title: "no checker looked at it, though they work on this hardware" },
        "not sanitized",
      ),
    );
  if (section.best?.unfit) found.push(h("span", { class: "mark warn", title: section.best.unfit }, "speed not counted"));
  if (section.cheats) found.push(h("span", { class: "mark cheat" }, count(section.cheats, "cheat")));
  return h("span", { class: "marks" }, found);
}

function problemList(page) {
  const sections = page.sections;
  const places = options(sections.map(place));
  const columns = [
    {
      label: "problem",
      heads: true,
      key: (row) => row.problem,
      cell: (row) => h("a", { href: address(row) }, named(row.problem)),
    },
    ...(places.length > 1 ? [{ label: "backend, hardware, terms", class: "place", key: place, cell: place }] : []),
    {
      label: "correct",
      number: true,
      key: (row) => row.passed,
      cell: (row) => `${row.passed}/${row.attempts}`,
    },
    {
      label: "best speedup",
      number: true,
      key: (row) => row.best?.speedup ?? null,
      cell: (row) =>
        row.best ? speedup(row.best.speedup, row.best.low, row.best.high, row.best.doubted) : "–",
    },
    {
      label: "by",
      class: "name",
      key: (row) => row.best?.model ?? null,
      cell: (row) => (row.best ? h("bdi", {}, row.best.model) : "–"),
    },
    { label: "track", key: (row) => row.best?.track ?? null, cell: (row) => row.best?.track ?? "–" },
    { label: "remarks", key: (row) => row.flaws.length * 100 + row.cheats, cell: marks },
  ];
  const filters = [
    {
      label: "text",
      placeholder: "problem, model, hardware",
      fits: (row, wanted) => has([row.problem, place(row), ...row.models].join(" "), wanted),
    },
    {
      label: "level",
      options: options(sections.map((row) => row.level)),
      fits: (row, wanted) => row.level === wanted,
    },
    {
      label: "model",
      options: options(sections.flatMap((row) => row.models)),
      fits: (row, wanted) => row.models.includes(wanted),
    },
    {
      label: "backend",
      options: options(sections.map((row) => row.backend)),
      fits: (row, wanted) => row.backend === wanted,
    },
    {
      label: "hardware",
      options: options(sections.map((row) => row.hardware)),
      fits: (row, wanted) => row.hardware === wanted,
    },
    {
      label: "has status",
      options: options(sections.flatMap((row) => row.statuses.map(([name]) => name))),
      fits: (row, wanted) => row.statuses.some(([name]) => name === wanted),
    },
  ];
  return list({ caption: "Problems", noun: "problem", columns, rows: sections, filters, order: [0, 1] });
}

// The address of an attempt whose texts are on this page: a kernel or a failure of its section; null of others.
function embedded(attempt) {
  const among = (shown) =>
    shown.findIndex((one) => one.attempt === attempt.id && one.run === attempt.run && one.doc !== null);
  const kernel = among(attempt.section.kernels),
    failure = among(attempt.section.failures);
  if (kernel < 0 && failure < 0) return null;
  return `#s${attempt.section.n}${kernel < 0 ? `f${failure}` : `k${kernel}`}`;
}

function attemptColumns(page, isWide) {
  return [
    ...(isWide
      ? [
          {
            label: "problem",
            heads: true,
            key: (row) => row.section.problem,
            cell: (row) => h("a", { href: address(row.section) }, named(row.section.problem)),
          },
        ]
      : []),
    {
      label: "attempt",
      class: "nowrap",
      key: (row) => row.id,
      cell: (row) => {
        const there = embedded(row);
        return there === null ? h("code", {}, row.id) : h("a", { href: there }, h("code", {}, row.id));
      },
    },
    {
      label: "model",
      class: "name",
      key: (row) => `${row.model} ${row.strategy}`,
      cell: (row) => [h("bdi", {}, row.model), " ", h("bdi", { class: "muted small" }, row.strategy)],
    },
    { label: "sample", number: true, key: (row) => row.sample, cell: (row) => row.sample },
    { label: "turn", number: true, key: (row) => row.turn, cell: (row) => row.turn },
    {
      label: "status",
      class: "nowrap",
      key: (row) => row.status,
      cell: (row) => [
        status(row.status),
        row.isCheat ? [" ", h("span", { class: "mark cheat" }, "cheat")] : null,
      ],
    },
    {
      label: "speedup",
      number: true,
      key: (row) => row.speedup,
      cell: (row) => speedup(row.speedup, row.low, row.high, row.isDoubted),
    },
    { label: "track", key: (row) => row.track, cell: (row) => row.track ?? "–" },
    { label: "tokens", number: true, key: (row) => row.tokens, cell: (row) => whole(row.tokens) },
    ...(page.attempts.some((row) => row.cost)
      ? [{ label: "cost", number: true, key: (row) => row.cost, cell: (row) => dollars(row.cost) }]
      : []),
    {
      label: "run",
      class: "nowrap",
      key: (row) => row.run,
      cell: (row) => h("bdi", { class: "small" }, row.run),
    },
  ];
}

function attemptFilters(rows, isWide) {
  return [
    {
      label: "text",
      placeholder: "problem, model, run, attempt",
      fits: (row, wanted) =>
        has([row.section.problem, row.model, row.strategy, row.run, row.id].join(" "), wanted),
    },
    ...(isWide
      ? [
          {
            label: "level",
            options: options(rows.map((row) => row.section.level)),
            fits: (row, wanted) => row.section.level === wanted,
          },
          {
            label: "backend",
            options: options(rows.map((row) => row.section.backend)),
            fits: (row, wanted) => row.section.backend === wanted,
          },
        ]
      : []),
    {
      label: "model",
      options: options(rows.map((row) => row.model)),
      fits: (row, wanted) => row.model === wanted,
    },
    {
      label: "status",
      options: options(rows.map((row) => row.status)),
      fits: (row, wanted) => row.status === wanted,
    },
    { label: "run", options: options(rows.map((row) => row.run)), fits: (row, wanted) => row.run === wanted },
  ];
}

function attemptList(page, rows, isWide) {
  return list({
    caption: isWide ? "Attempts" : "Attempts at this problem",
    noun: "attempt",
    columns: attemptColumns(page, isWide),
    rows,
    filters: attemptFilters(rows, isWide),
  });
}
