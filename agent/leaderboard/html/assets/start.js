// Puts the parts in their places and follows the address.

function route(page) {
  const [, number, kind, place] = /^#s(\d+)(?:([kf])(\d+))?$/.exec(location.hash) ?? [];
  const section =
    number === undefined ? null : page.sections.find((one) => one.n === Number(number) && one.here);
  const overview = byId("overview"),
    mount = byId("section");
  if (!section) {
    overview.hidden = false;
    mount.hidden = true;
    mount.replaceChildren();
    document.title = page.title;
    // The browser looked for the part before it was unpacked, and before the section gave way to it.
    if (location.hash.length > 1)
      document.getElementById(location.hash.slice(1))?.scrollIntoView({ behavior: "instant" });
    return;
  }
  const isOther = mount.dataset.section !== number || mount.hidden;
  const { view, title } = sectionView(page, section, kind ?? "k", Number(place ?? 0));
  mount.dataset.section = number;
  mount.replaceChildren(view);
  overview.hidden = true;
  mount.hidden = false;
  document.title = `${section.problem} · ${page.title}`;
  if (isOther) {
    window.scrollTo({ top: 0, behavior: "instant" });
    title.focus({ preventScroll: true });
  } else {
    mount.querySelector('.kernels [aria-pressed="true"]')?.focus();
  }
}

function tracks() {
  const choice = byId("tracks");
  if (!choice) return;
  choice.hidden = false;
  choice.addEventListener("change", (event) => {
    for (const part of document.querySelectorAll(".track"))
      part.hidden = part.dataset.track !== event.target.value;
  });
}

function fill(id, ...content) {
  const part = byId(id);
  part.append(...content.flat());
  part.hidden = false;
}

async function start() {
  themes();
  tracks();
  document.querySelectorAll("table.sortable").forEach(sortStanding);
  const page = { values: await unpack(), title: document.title };
  page.header = page.values.get(0);
  page.sections = sectionsOf(page);
  page.attempts = attemptsOf(page);
  const listed = new Set(page.attempts.map((row) => row.section));
  for (const section of page.sections) section.here = listed.has(section);
  if (page.sections.length) fill("problems", problemList(page));
  if (page.attempts.length) fill("attempts", attemptList(page, page.attempts, true));
  if (page.header.runs.length) fill("compare", compareView(page));
  window.addEventListener("hashchange", () => route(page));
  route(page);
  document.documentElement.dataset.ready = "yes";
}

start().catch((error) => {
  const trouble = byId("trouble");
  trouble.textContent = `This browser could not unpack the page's data (${error.message}); a current one can.`;
  trouble.hidden = false;
});
