// Tables that sort and filter. One that the file holds as HTML only sorts; one of data filters and grows too.

const STEP = 100;

function compare(one, other) {
  const empty = (value) => value === null || value === undefined || value === "";
  if (empty(one) || empty(other)) return empty(one) - empty(other);
  return typeof one === "number" && typeof other === "number"
    ? one - other
    : String(one).localeCompare(String(other), "en", { numeric: true });
}

// Gives each cell its column's name, which stands before it where a narrow screen stacks the cells of a row, and
// each part its role, which some browsers forget with the layout of a table.
function stack(table) {
  const names = [...table.tHead.rows[0].cells].map((heading) => heading.textContent.trim());
  table.classList.add("stacks");
  table.setAttribute("role", "table");
  for (const group of [table.tHead, ...table.tBodies]) group.setAttribute("role", "rowgroup");
  for (const row of table.rows) {
    row.setAttribute("role", "row");
    [...row.cells].forEach((cell, column) => {
      const isHeading = cell.tagName === "TH";
      if (!isHeading && !cell.hasAttribute("colspan")) cell.dataset.label = names[column];
      const heads = row.parentNode === table.tHead ? "columnheader" : "rowheader";
      cell.setAttribute("role", isHeading ? heads : "cell");
    });
  }
}

// Makes headings buttons; `sort(column, direction)` is called with 1 for rising, -1 for falling.
function sortable(headings, sort) {
  headings.forEach((heading, column) => {
    const button = h("button", { type: "button" });
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const was = heading.getAttribute("aria-sort");
      const falls = was ? was === "ascending" : heading.classList.contains("number");
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", falls ? "descending" : "ascending");
      sort(column, falls ? -1 : 1);
    });
  });
}

function sortStanding(table) {
  const body = table.tBodies[0];
  stack(table);
  const key = (row, column) => {
    const text = row.cells[column].dataset.sort ?? row.cells[column].textContent;
    return text !== "" && !Number.isNaN(Number(text)) ? Number(text) : text;
  };
  sortable([...table.tHead.rows[0].cells], (column, sign) => {
    const rows = [...body.rows].sort((one, other) => sign * compare(key(one, column), key(other, column)));
    body.append(...rows);
  });
}

// One filter: {label, options: [[value, words]], fits(row, value)}, or, without options, a search for text.
function control(filter, changed) {
  if (!filter.options) {
    const input = h("input", {
      type: "search",
      placeholder: filter.placeholder ?? "",
      on: { input: changed },
    });
    return { label: h("label", {}, filter.label, input), node: input };
  }
  const choices = [["", "all"], ...filter.options].map(([value, words]) => h("option", { value }, words));
  const select = h("select", { on: { change: changed } }, choices);
  return { label: h("label", {}, filter.label, select), node: select };
}

// {caption, noun, columns: [{label, number, key(row), cell(row)}], rows, filters, order: [column, sign]}
function list({ caption, noun, columns, rows, filters = [], order = null }) {
  let sorting = order,
    shown = STEP;
  const body = h("tbody"),
    counted = h("p", { class: "count", role: "status" });
  const more = h("button", { type: "button", class: "more" });
  const useful = filters.filter((filter) => !filter.options || filter.options.length > 1);
  const controls = useful.map((filter) =>
    control(filter, () => {
      shown = STEP;
      draw();
    }),
  );
  const headings = columns.map((column) =>
    h("th", { scope: "col", class: column.number ? "number" : null }, column.label),
  );

  const table = h(
    "table",
    { class: "data" },
    h("caption", { class: "unseen" }, caption),
    h("thead", {}, h("tr", {}, headings)),
    body,
  );

  function draw() {
    let fitting = rows.filter((row) =>
      useful.every(
        (filter, place) => !controls[place].node.value || filter.fits(row, controls[place].node.value),
      ),
    );
    if (sorting) {
      const [column, sign] = sorting,
        key = columns[column].key;
      const absent = (row) => key(row) === null || key(row) === undefined;
      fitting = [...fitting].sort(
        (one, other) => absent(one) - absent(other) || sign * compare(key(one), key(other)),
      );
    }
    const visible = fitting.slice(0, shown).map((row) =>
      h(
        "tr",
        {},
        columns.map((column, place) => {
          const scope = column.heads ? { scope: "row" } : {};
          return h(
            column.heads ? "th" : "td",
            { ...scope, class: column.number ? "number" : (column.class ?? null) },
            column.cell(row),
          );
        }),
      ),
    );
    body.replaceChildren(...visible);
    if (!fitting.length)
      body.append(h("tr", {}, h("td", { class: "empty", colspan: columns.length }, `No ${noun} fits.`)));
    stack(table);
    const all = fitting.length === rows.length ? "" : ` of ${whole(rows.length)}`;
    counted.textContent = `${whole(fitting.length)}${all} ${noun}${rows.length === 1 ? "" : "s"}${fitting.length > shown ? `, the first ${whole(shown)} shown` : ""}`;
    more.hidden = fitting.length <= shown;
    more.textContent = `Show ${whole(Math.min(STEP * 4, fitting.length - shown))} more`;
  }

  more.addEventListener("click", () => {
    shown += STEP * 4;
    draw();
  });
  sortable(headings, (column, sign) => {
    sorting = [column, sign];
    draw();
  });
  if (order) headings[order[0]].setAttribute("aria-sort", order[1] > 0 ? "ascending" : "descending");
  draw();
  const form = h(
    "form",
    {
      class: "filters",
      role: "search",
      "aria-label": `Filter: ${caption}`,
      on: { submit: (event) => event.preventDefault() },
    },
    controls.map((one) => one.label),
  );
  const frame = h(
    "div",
    { class: "scroll", role: "region", tabindex: "0", "aria-label": `${caption}, table` },
    table,
  );
  return h("div", {}, useful.length ? form : null, counted, frame, more);
}
