// The graph around a memory, drawn from the list beside it, and walked by click or keyboard without loading a page.
(() => {
  "use strict";
  const { $, all, attempt, reached, tell } = window.recollect;
  const SVG = "http://www.w3.org/2000/svg", RADIUS = 9, MOST_LABELS = 28, LABEL = 24;

  function made(name, attributes, ...inside) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...inside);
    return element;
  }

  const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

  // What the list says, as nodes and edges.
  function read() {
    const nodes = new Map(), edges = [];
    for (const item of all("[data-node]")) {
      const link = $("a", item);
      nodes.set(item.dataset.node, { ...item.dataset, hops: Number(item.dataset.hops), text: link.textContent.trim(), href: link.href });
      for (const edge of all("[data-edge]", item)) edges.push({ from: item.dataset.node, to: edge.dataset.edge, type: edge.dataset.type });
    }
    return { nodes, edges: edges.filter((edge) => nodes.has(edge.to)) };
  }

  // Rings around the middle; on each, nodes stand in the order of those they hang on, so that few lines cross.
  function place({ nodes, edges }, width, height) {
    const rings = [];
    for (const node of nodes.values()) (rings[node.hops] ??= []).push(node);
    const count = Math.max(rings.length - 1, 1);
    rings.forEach((ring, hops) => {
      for (const node of ring) {
        const inner = edges.flatMap((edge) => (edge.from === node.node ? [edge.to] : edge.to === node.node ? [edge.from] : []));
        const known = inner.map((id) => nodes.get(id)).find((other) => other.hops < hops && other.angle !== undefined);
        node.near = known?.angle ?? 0;
      }
      ring.sort((one, other) => one.near - other.near);
      ring.forEach((node, number) => {
        node.angle = (2 * Math.PI * (number + (hops % 2 ? 0.25 : 0.5))) / ring.length;
        node.x = width / 2 + (hops / count) * (width / 2 - 70) * Math.cos(node.angle);
        node.y = height / 2 + (hops / count) * (height / 2 - 34) * Math.sin(node.angle);
      });
    });
  }

  function line({ from, to, type }, nodes) {
    const [a, b] = [nodes.get(from), nodes.get(to)];
    const length = Math.hypot(b.x - a.x, b.y - a.y) || 1, part = (RADIUS + 4) / length;
    const end = { x: b.x + (a.x - b.x) * part, y: b.y + (a.y - b.y) * part };
    const title = made("title", {}, `${short(a.text, 60)} ${type.replaceAll("_", " ")} ${short(b.text, 60)}`);
    const kind = ["supports", "contradicts"].includes(type) ? type : "other";
    return made("path", { class: kind, d: `M${a.x} ${a.y}L${end.x} ${end.y}`, "marker-end": "url(#arrow)" }, title);
  }

  function circle(node, hasLabel, most) {
    const said = `${node.text} (${node.status}, ${node.hops ? `${node.hops} away` : "in the middle"})`;
    const link = made("a", { href: node.href, class: `${node.status}${node.hops ? "" : " first"}`, "data-at": node.node });
    link.append(made("title", {}, said), made("circle", { cx: node.x, cy: node.y, r: node.hops ? RADIUS : RADIUS + 4 }));
    const label = made("text", { x: node.x, y: node.y + RADIUS + 16, "text-anchor": "middle", class: hasLabel ? "" : "late" }, short(node.text, most));
    link.append(label);
    return link;
  }

  function draw() {
    const board = $("#drawing");
    if (!board) return;
    const graph = read(), width = Math.max(board.clientWidth, 280), height = Math.min(Math.max(360, graph.nodes.size * 16), 620);
    place(graph, width, height);
    const hasLabels = graph.nodes.size <= (width < 500 ? MOST_LABELS / 3 : MOST_LABELS);
    const arrow = made("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, made("path", { d: "M0 0L8 4L0 8z" }));
    const drawing = made("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "group", "aria-label": board.dataset.label });
    drawing.append(made("defs", {}, arrow), ...graph.edges.map((edge) => line(edge, graph.nodes)));
    drawing.append(...[...graph.nodes.values()].map((node) => circle(node, hasLabels || node.hops === 0, width < 500 ? LABEL / 2 : LABEL)));
    board.replaceChildren(drawing);
  }

  // The nearest node in the direction of an arrow key.
  function towards(from, key) {
    const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
    const centre = (link) => ({ x: Number($("circle", link).getAttribute("cx")), y: Number($("circle", link).getAttribute("cy")) });
    const here = centre(from);
    let best = null, least = Infinity;
    for (const link of all("#drawing a")) {
      if (link === from) continue;
      const at = centre(link), along = (at.x - here.x) * dx + (at.y - here.y) * dy;
      const aside = Math.abs((at.x - here.x) * dy) + Math.abs((at.y - here.y) * dx);
      if (along > 1 && along + 2 * aside < least) [best, least] = [link, along + 2 * aside];
    }
    return best;
  }

  let walked = 0;
  async function walk(href, isBack = false) {
    const mine = (walked += 1);
    const answer = await attempt(() => reached(href, { credentials: "same-origin" }));
    const page = answer?.ok ? new DOMParser().parseFromString(await answer.text(), "text/html") : null;
    if (!answer || mine !== walked) return;
    const fresh = page && $("#graph-page", page);
    if (!fresh) { if (answer.redirected) location.assign(href); else tell("It could not be loaded; it may have been forgotten", true); return; }
    $("#graph-page").replaceWith(fresh);
    document.title = page.title;
    if (!isBack) history.pushState(null, "", href);
    draw();
    $("#drawing a.first")?.focus({ preventScroll: true });
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("#drawing a, a[data-walk]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    walk(link.href.baseVal ?? link.href);
  });
  document.addEventListener("keydown", (event) => {
    const link = event.target.closest?.("#drawing a");
    if (!link || !event.key.startsWith("Arrow")) return;
    event.preventDefault();
    towards(link, event.key)?.focus();
  });
  addEventListener("popstate", () => walk(location.href, true));
  let resizing;
  addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(draw, 150); });
  draw();
})();
