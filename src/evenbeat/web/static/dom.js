// Build DOM nodes. Text always becomes text: nothing in this page turns a string into markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element: h("a", {class: "name", href: "#/now", onclick: go}, "text", child, [more, children]). */
export function h(tag, attributes = null, ...children) {
  return furnish(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svg(tag, attributes = null, ...children) {
  return furnish(document.createElementNS(SVG, tag), attributes, children);
}

function furnish(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes ?? {})) set(node, key, value);
  node.append(...flat(children));
  return node;
}

/** Set one attribute: functions listen, `dataset` and `vars` (CSS custom properties) take objects, null takes away. */
export function set(node, key, value) {
  if (typeof value === "function") {
    node.addEventListener(key.replace(/^on/, ""), value);
  } else if (key === "dataset") {
    for (const [name, entry] of Object.entries(value)) node.dataset[name] = entry;
  } else if (key === "vars") {
    for (const [name, entry] of Object.entries(value)) node.style.setProperty(`--${name}`, entry);
  } else if (value === null || value === undefined || value === false) {
    node.removeAttribute(key);
  } else if (key.startsWith("on") || key === "style") {
    throw new TypeError(`${key} as text is not allowed`);
  } else if (key === "href" && !/^(#|\/(?![\/\\]))/.test(value)) {
    throw new TypeError("links stay in this page");
  } else if (key === "value") {
    node.value = value;
  } else {
    node.setAttribute(key, value === true ? "" : value);
  }
}

function flat(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

/** Put these children in place of the old ones. */
export function fill(node, ...children) {
  node.replaceChildren(...flat(children));
  return node;
}

/** Set text only where it differs, so that selections and screen readers are left alone. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Keep the children of a node in step with items, reusing nodes by key, so that focus and selection survive. */
export function keep(node, items, keyOf, create, update) {
  const old = new Map([...node.children].map((child) => [child.__key, child]));
  let place = node.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let child = old.get(key);
    if (child === undefined) {
      child = create(item);
      child.__key = key;
    }
    old.delete(key);
    update?.(child, item);
    if (child === place) place = place.nextElementSibling;
    else node.insertBefore(child, place);
  }
  for (const child of old.values()) child.remove();
}
