// Unpacking, small builders of elements, words for numbers. Text of strangers is only ever set as text.

const SVG = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);

function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") for (const [event, act] of Object.entries(value)) node.addEventListener(event, act);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

// h("p", {class: "muted"}, "text", node, …): an element; strings become text, never markup.
function h(tag, attributes = {}, ...children) {
  return build(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return build(document.createElementNS(SVG, tag), attributes, children);
}

// A name that may break after `_` and `/`, and reads in its own direction.
function named(text) {
  return h("bdi", {}, (text ?? "").split(/(?<=[_/])/).flatMap((part) => [part, h("wbr")]));
}

// The page's data: values by id, inflated from base64. Value 0 is the header.
async function unpack() {
  const bytes = Uint8Array.from(atob(byId("data").textContent), (letter) => letter.charCodeAt(0));
  const inflated = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const text = await new Response(inflated).text();
  const values = new Map();
  for (const line of text.split("\n")) {
    if (line) {
      const [key, value] = JSON.parse(line);
      values.set(key, value);
    }
  }
  return values;
}

const times = (value) => (value === null || value === undefined ? "–" : `${value.toFixed(2)}×`);
const whole = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en-US"));
const between = (low, high) => (low === null || high === null ? "" : `${low.toFixed(2)}–${high.toFixed(2)}`);
const count = (amount, one, many = `${one}s`) => `${whole(amount)} ${amount === 1 ? one : many}`;
const dollars = (value) =>
  value === null || value === undefined ? "–" : value === 0 ? "$0" : `$${value.toFixed(value < 0.1 ? 4 : 2)}`;

function speedup(value, low, high, doubted = false) {
  if (value === null || value === undefined) return h("span", { class: "muted" }, "–");
  const range = between(low ?? null, high ?? null);
  return h(
    "span",
    {},
    h("span", { class: "strong" }, times(value)),
    doubted ? "†" : "",
    range && h("span", { class: "muted small" }, ` ${range}`),
  );
}

function status(name) {
  return h("span", {}, h("span", { class: `swatch s-${name}`, "aria-hidden": "true" }), name);
}

function copying(text) {
  const button = h("button", { type: "button", class: "copy" }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Copying is not allowed here";
    }
    setTimeout(() => {
      button.textContent = "Copy";
    }, 2000);
  });
  return button;
}

// The theme follows the system until the reader chooses; where nothing may be stored the choice lasts a visit.
function themes() {
  const order = ["system", "light", "dark"],
    button = byId("theme");
  const remembered = () => {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null;
    }
  };
  const show = (theme) => {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
  };
  let now = order.includes(remembered()) ? remembered() : "system";
  show(now);
  button.hidden = false;
  button.addEventListener("click", () => {
    now = order[(order.indexOf(now) + 1) % order.length];
    try {
      localStorage.setItem("theme", now);
    } catch {
      /* lasts a visit */
    }
    show(now);
  });
}
