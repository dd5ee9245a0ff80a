// One problem on its terms: its attempts, and its best kernels with everything that is known of them.

function textOf(page, key) {
  return key === null || key === undefined ? null : (page.values.get(key) ?? null);
}

// What stands where a text would: nothing was there, or there was no room for it.
function absent(key, lies) {
  if (key === null || key === undefined) return h("p", { class: "muted" }, "There is none.");
  return h(
    "p",
    { class: "muted" },
    "Left out to keep this page small, or damaged; it lies in ",
    h("code", {}, lies || "the run's texts"),
    ".",
  );
}

function cutNote(value, lies) {
  return value.of
    ? h(
        "p",
        { class: "muted small" },
        `The first ${whole(value.text.length)} of ${whole(value.of)} characters; the whole lies in `,
        h("code", {}, lies),
        ".",
      )
    : null;
}

function coloured(value) {
  const parts = [];
  let begin = 0;
  for (const [, letter, length] of value.runs.matchAll(/([a-z_])(\d+)/g)) {
    const text = value.text.slice(begin, begin + Number(length));
    parts.push(letter === "_" ? text : h("span", { class: letter }, text));
    begin += Number(length);
  }
  parts.push(value.text.slice(begin));
  return h("code", {}, parts);
}

function source(page, title, key, lies) {
  const value = textOf(page, key);
  const content = value
    ? [
        h("pre", { tabindex: "0", role: "region", "aria-label": title }, coloured(value)),
        cutNote(value, lies),
      ]
    : absent(key, lies);
  return h(
    "section",
    {},
    h("div", { class: "titled" }, h("h2", {}, title), value ? copying(value.text) : null),
    content,
  );
}

function turns(page, document) {
  return document.conversation.map(([role, key, lies], number) => {
    const value = textOf(page, key);
    const size = value ? `${whole(value.of ?? value.text.length)} characters` : "left out";
    const body = value
      ? [
          h(
            "pre",
            { class: "prose", tabindex: "0", role: "region", "aria-label": `${role}, message ${number + 1}` },
            value.text,
          ),
          cutNote(value, lies),
        ]
      : absent(key, lies);
    return h("details", {}, h("summary", {}, role, h("span", { class: "muted small" }, ` · ${size}`)), body);
  });
}

// Compile logs, tracebacks and printed output: opened where nothing passed, since they say why.
function logs(page, document, isFailure) {
  const shown = document.logs.map(([label, key]) => {
    const value = textOf(page, key);
    const body = value
      ? [
          h("pre", { class: "prose", tabindex: "0", role: "region", "aria-label": label }, value.text),
          cutNote(value, document.logAt),
        ]
      : absent(key, document.logAt);
    return h("details", isFailure ? { open: true } : {}, h("summary", {}, label), body);
  });
  return shown.length ? h("section", {}, h("h2", {}, "What the tools said"), shown) : null;
}

function scoreLog(page, document) {
  const value = textOf(page, document.log);
  const body = value
    ? [
        h("pre", { tabindex: "0", role: "region", "aria-label": "score log" }, value.text),
        cutNote(value, document.logAt),
      ]
    : absent(document.log, document.logAt);
  return h("details", {}, h("summary", {}, "Full score log"), body);
}

function kernelDetails(page, section, kernel) {
  const document = textOf(page, kernel.doc);
  if (!document)
    return h(
      "p",
      { class: "muted" },
      "This page has no room for this attempt's texts, or they are damaged. ",
      "It is attempt ",
      h("code", {}, kernel.attempt),
      " in ",
      h("code", {}, `runs/${kernel.run}/attempts.jsonl`),
      ".",
    );
  const commands = document.commands.map(([label, command]) =>
    h(
      "div",
      {},
      h("p", { class: "muted small" }, `${label[0].toUpperCase()}${label.slice(1)}:`),
      h(
        "div",
        { class: "command" },
        h("pre", { tabindex: "0", role: "region", "aria-label": label }, command),
        copying(command),
      ),
    ),
  );
  return [
    h(
      "dl",
      { class: "score" },
      document.facts.map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, value))),
    ),
    kernel.speedup === null ? logs(page, document, true) : null,
    h(
      "div",
      { class: "sources" },
      source(page, kernel.speedup === null ? "Candidate" : "Kernel", document.source, document.sourceAt),
      source(page, "Reference", document.reference, `runs/${kernel.run}/attempts.jsonl`),
    ),
    kernel.speedup === null ? null : logs(page, document, false),
    h("section", {}, h("h2", {}, "Conversation"), turns(page, document)),
    h(
      "section",
      {},
      h("h2", {}, "Score and how to measure it again"),
      commands.length
        ? [h("p", { class: "muted small" }, "In the workspace this page was made from:"), commands]
        : null,
      scoreLog(page, document),
    ),
  ];
}

function choiceOfKernels(section, chosen, choose) {
  if (section.kernels.length < 2) return null;
  const buttons = section.kernels.map((kernel, number) =>
    h(
      "button",
      { type: "button", "aria-pressed": String(number === chosen), on: { click: () => choose(number) } },
      h("b", {}, times(kernel.speedup)),
      kernel.doubted ? "† " : " ",
      h("bdi", {}, kernel.model),
      " ",
      h("bdi", { class: "muted" }, kernel.strategy),
    ),
  );
  return h(
    "div",
    { class: "kernels", role: "group", "aria-label": "Best kernel of each model and strategy" },
    buttons,
  );
}

function sectionView(page, section, kind, chosen) {
  const attempts = page.attempts.filter((row) => row.section === section);
  const near = page.sections.filter((one) => one.here),
    at = near.indexOf(section);
  // One problem on two kinds of hardware is two sections: then the place tells them apart.
  const link = (one, words) =>
    one
      ? h(
          "a",
          { href: `#s${one.n}` },
          words,
          named(one.problem === section.problem ? place(one) : one.problem),
        )
      : null;
  const isFailure = kind === "f" && section.failures[chosen] !== undefined;
  const kernel = isFailure ? section.failures[chosen] : (section.kernels[chosen] ?? section.kernels[0]);
  const title = h("h1", { tabindex: "-1" }, named(section.problem));
  const told = section.best
    ? [count(section.passed, "correct attempt"), ` of ${whole(section.attempts)}`]
    : [`Nothing correct in ${count(section.attempts, "attempt")}; shown is the last one that held code`];
  const groups =
    section.groups > section.kernels.length
      ? ` The best ${section.kernels.length} of ${section.groups} models and strategies are shown.`
      : "";
  const view = h(
    "div",
    {},
    h(
      "p",
      { class: "crumbs" },
      h("a", { href: "#problems" }, "All problems"),
      link(near[at - 1], "← "),
      link(near[at + 1], "→ "),
    ),
    title,
    h("p", { class: "lead" }, place(section), " ", marks(section)),
    h("p", { class: "muted" }, told, ".", groups),
    isFailure
      ? h(
          "p",
          { class: "note" },
          "This attempt failed: ",
          h("code", {}, kernel.attempt),
          " by ",
          h("bdi", {}, kernel.model),
          `, sample ${kernel.sample}, turn ${kernel.turn}, ended `,
          status(kernel.status),
          section.kernels.length ? [". ", h("a", { href: `#s${section.n}` }, "Best kernels")] : null,
        )
      : null,
    section.flaws.length
      ? h(
          "p",
          { class: "note" },
          `Vetting calls this problem flawed (${section.flaws.join(", ")}): scores on it say little.`,
        )
      : null,
    kernel?.doubted
      ? h("p", { class: "note" }, "† No checker looked at this kernel, though they work on this hardware.")
      : null,
    kernel?.unfit ? h("p", { class: "note" }, `Correct, but its speed is not counted: ${kernel.unfit}.`) : null,
    choiceOfKernels(section, section.kernels.indexOf(kernel), (number) => {
      location.hash = `#s${section.n}k${number}`;
    }),
    kernel ? kernelDetails(page, section, kernel) : null,
    h(
      "section",
      {},
      h("h2", {}, "Attempts"),
      overTurns(section, attempts),
      section.listed < section.attempts
        ? h(
            "p",
            { class: "note" },
            `${whole(section.attempts - section.listed)} more attempts are in the runs' logs; they fit no page.`,
          )
        : null,
      attemptList(page, attempts, false),
    ),
  );
  return { view, title };
}
