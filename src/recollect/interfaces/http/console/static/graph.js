// The graph around a memory and its evidence, drawn from the list beside it; walked and expanded by click or keyboard
// without loading a page.
(() => {
  "use strict";
  const { $, all, attempt, reached, tell } = window.recollect;
  const SVG = "http://www.w3.org/2000/svg", RADIUS = 9, MOST_LABELS = 28, LABEL = 26, STEPS = 240;

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
      const link = $("a", item), hops = Number(item.dataset.hops);
      nodes.set(item.dataset.node, { ...item.dataset, hops, text: link.textContent.trim(), href: link.href, expands: $("[data-expands]", item)?.href });
      for (const edge of all("[data-edge]", item)) edges.push({ from: item.dataset.node, to: edge.dataset.edge, type: edge.dataset.type });
    }
    for (const item of all("[data-node]")) for (const cited of all("[data-source]", item)) evidence(nodes, edges, item.dataset, cited);
    return { nodes, edges: edges.filter((edge) => nodes.has(edge.to)) };
  }

  // A source that several memories rest on is one square, next to the one that is nearest to the middle.
  function evidence(nodes, edges, { node: of, hops }, cited) {
    const id = `source ${cited.dataset.source}`, further = Number(hops) + 1, link = $("a", cited);
    const known = nodes.get(id);
    if (known) known.hops = Math.min(known.hops, further);
    else nodes.set(id, { node: id, isSource: true, status: cited.dataset.state, hops: further, text: link.textContent.trim(), href: link.href });
    edges.push({ from: of, to: id, type: "rests on" });
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
    settle([...nodes.values()], edges.map(({ from, to, type }) => [nodes.get(from), nodes.get(to), type === "rests on" ? 0.6 : 1]), width, height);
  }

  // From there, all push each other away and lines pull, for a fixed number of steps: the same graph is drawn the same.
  // Labels are wide, so what stands side by side needs more room than what stands one above the other.
  function settle(nodes, springs, width, height) {
    const room = Math.sqrt((width * height) / Math.max(nodes.length, 4)) * 0.56, WIDE = 0.55, edge = width < 500 ? 55 : 86;
    for (let step = 0; step < STEPS; step += 1) {
      const most = (room / 4) * (1 - step / STEPS);
      for (const node of nodes) [node.dx, node.dy] = [(width / 2 - node.x) * 0.02, (height / 2 - node.y) * 0.03];
      nodes.forEach((one, at) => nodes.slice(at + 1).forEach((other) => push(one, other, room * room, WIDE)));
      for (const [one, other, length] of springs) pull(one, other, room * length, WIDE);
      for (const node of nodes) {
        if (node.hops === 0) continue;
        const far = Math.hypot(node.dx, node.dy) || 1, by = Math.min(far, most) / far;
        node.x = Math.min(Math.max(node.x + node.dx * by, edge), width - edge);
        node.y = Math.min(Math.max(node.y + node.dy * by, 18), height - 34);
      }
    }
  }

  function push(one, other, strength, wide) {
    const x = (one.x - other.x || 0.1) * wide, y = one.y - other.y || 0.1, force = strength / (x * x + y * y);
    [one.dx, one.dy, other.dx, other.dy] = [one.dx + x * force, one.dy + y * force, other.dx - x * force, other.dy - y * force];
  }

  function pull(one, other, length, wide) {
    const x = (other.x - one.x) * wide, y = other.y - one.y, far = Math.hypot(x, y) || 1, force = Math.max(far - length, 0) / far;
    [one.dx, one.dy, other.dx, other.dy] = [one.dx + x * force, one.dy + y * force, other.dx - x * force, other.dy - y * force];
  }

  function line({ from, to, type }, nodes) {
    const [a, b] = [nodes.get(from), nodes.get(to)];
    const length = Math.hypot(b.x - a.x, b.y - a.y) || 1, part = (RADIUS + 4) / length;
    const end = { x: b.x + (a.x - b.x) * part, y: b.y + (a.y - b.y) * part };
    const title = made("title", {}, `${short(a.text, 60)} ${type.replaceAll("_", " ")} ${short(b.text, 60)}`);
    const path = made("path", { class: kindOf(type), d: `M${a.x} ${a.y}L${end.x} ${end.y}` }, title);
    if (!b.isSource) path.setAttribute("marker-end", "url(#arrow)");
    return path;
  }

  const REPLACING = ["supersedes", "superseded_by", "replaces", "merged_into"];
  const kindOf = (type) => (["supports", "contradicts"].includes(type) ? type : REPLACING.includes(type) ? "replaces" : type === "rests on" ? "rests" : "other");

  // What a line means, in words beside its middle; only where there is room.
  function lineLabel({ from, to, type }, nodes) {
    const [a, b] = [nodes.get(from), nodes.get(to)];
    return made("text", { class: "link-type", x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 + 3, "text-anchor": "middle", "aria-hidden": "true" }, short(type.replaceAll("_", " "), 20));
  }

  function square(node, hasLabel, most) {
    const link = made("a", { href: node.href, class: `evidence ${node.status}`, "data-source-at": node.node });
    link.append(made("title", {}, `Evidence: ${node.text} (${node.status})`), made("rect", { x: node.x - 6, y: node.y - 6, width: 12, height: 12, rx: 2 }));
    link.append(made("text", { x: node.x, y: node.y + 20, "text-anchor": "middle", class: hasLabel ? "" : "late" }, short(node.text, most)));
    return link;
  }

  function circle(node, hasLabel, most) {
    const said = `${node.text} (${node.status}, ${node.hops ? `${node.hops} away` : "in the middle"})`;
    const link = made("a", { href: node.href, class: `memory ${node.status}${node.hops ? "" : " first"}`, "data-at": node.node });
    link.append(made("title", {}, said), made("circle", { cx: node.x, cy: node.y, r: node.hops ? RADIUS : RADIUS + 4 }));
    const label = made("text", { x: node.x, y: node.y + RADIUS + 16, "text-anchor": "middle", class: hasLabel ? "" : "late" }, short(node.text, most));
    link.append(label);
    return link;
  }

  // Beside a memory whose neighbours are not drawn: shows them here. Keys have `e`, readers the link in the list.
  function plus(node) {
    const x = node.x + 11, y = node.y - 10;
    const mark = made("g", { class: "plus", "data-expands-to": node.expands, "aria-hidden": "true" }, made("title", {}, "Show its neighbours here"));
    mark.append(made("circle", { cx: x, cy: y, r: 7 }), made("path", { d: `M${x - 3.5} ${y}H${x + 3.5}M${x} ${y - 3.5}V${y + 3.5}` }));
    return mark;
  }

  function draw() {
    const board = $("#drawing");
    if (!board) return;
    const graph = read(), width = Math.max(board.clientWidth, 280), height = Math.min(Math.max(420, graph.nodes.size * 18), 680);
    place(graph, width, height);
    const hasLabels = graph.nodes.size <= (width < 500 ? MOST_LABELS / 3 : MOST_LABELS);
    const arrow = made("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, made("path", { d: "M0 0L8 4L0 8z" }));
    const drawing = made("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "group", "aria-label": board.dataset.label });
    drawing.append(made("defs", {}, arrow), ...graph.edges.map((edge) => line(edge, graph.nodes)));
    const between = graph.edges.filter((edge) => edge.type !== "rests on");
    if (width >= 500 && between.length <= MOST_LABELS / 2) drawing.append(...between.map((edge) => lineLabel(edge, graph.nodes)));
    const drawn = [...graph.nodes.values()], most = width < 500 ? LABEL / 2 : LABEL;
    drawing.append(...drawn.map((node) => (node.isSource ? square : circle)(node, hasLabels || node.hops === 0, most)));
    drawing.append(...drawn.filter((node) => node.expands).map(plus));
    board.replaceChildren(drawing);
  }

  // The nearest node in the direction of an arrow key.
  function towards(from, key) {
    const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
    const centre = (link) => { const box = $("circle, rect", link).getBBox(); return { x: box.x + box.width / 2, y: box.y + box.height / 2 }; };
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
  async function walk(href, isBack = false, back = "") {
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
    (all("#drawing a[data-at]").find((link) => link.dataset.at === back) ?? $("#drawing a.first"))?.focus({ preventScroll: true });
  }

  document.addEventListener("click", (event) => {
    const expands = event.target.closest("[data-expands-to]");
    if (expands) { walk(expands.dataset.expandsTo); return; }
    const link = event.target.closest("#drawing a[data-at], a[data-walk]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    walk(link.href.baseVal ?? link.href);
  });
  document.addEventListener("keydown", (event) => {
    const link = event.target.closest?.("#drawing a");
    if (link && event.key === "e" && !event.ctrlKey && !event.metaKey) {
      const expands = all("[data-node]").find((item) => item.dataset.node === link.dataset.at)?.querySelector("[data-expands]");
      if (expands) walk(expands.href, false, link.dataset.at);
      return;
    }
    if (!link || !event.key.startsWith("Arrow")) return;
    event.preventDefault();
    towards(link, event.key)?.focus();
  });
  addEventListener("popstate", () => walk(location.href, true));
  let resizing;
  addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(draw, 150); });
  draw();
})();
