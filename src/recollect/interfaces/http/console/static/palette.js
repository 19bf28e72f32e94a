// The command palette (Ctrl K): pages and actions of this page at once, memories and saved searches as they are found.
// What can be done is what the page offers: its own buttons are listed and pressed, so nobody is offered more.
(() => {
  "use strict";
  const { $, all, fragment, signedOut } = window.recollect;
  const dialog = $("#palette"), input = $("#palette-input"), list = $("#palette-list");
  const MOST_OF_A_GROUP = 8, PAUSE = 160;
  let options = [], at = 0, found = [], asked = 0, timer, cameFrom = null;

  const pages = () => all("#menu a").map((link) => ({
    group: "Pages", text: link.dataset.letter ? link.firstChild.textContent.trim() : `Your account: ${link.textContent.trim()}`,
    hint: link.dataset.letter ? `g ${link.dataset.letter}` : "", href: link.href,
  }));

  // What a button says, with what it is about where there are many alike.
  const said = (button) => (button.getAttribute("aria-label") ?? button.textContent).trim();
  function actions() {
    const current = $("[data-item].at");
    const within = current ? all("button, a.button", current) : [];
    const around = all("main .head button, main .head a.button, main .acts button, main .acts a.button").filter((one) => !one.closest("[data-item]"));
    const usable = [...within, ...around].filter((one) => !one.disabled && one.offsetParent !== null && said(one));
    const here = usable.map((one) => ({ group: within.includes(one) ? "On the selected line" : "On this page", text: said(one), press: one }));
    const always = [["Switch between light and dark", "#theme-button", "t"], ["Keyboard shortcuts", "#help-button", "?"], ["Sign out", "#sign-out", ""]];
    return [...here, ...always.map(([text, selector, hint]) => ({ group: "Everywhere", text, hint, press: $(selector) }))];
  }

  // How well letters match: best at the beginning, then at that of a word, else all in order from that of a word on.
  // Null if they do not.
  function rank(text, letters) {
    const low = text.toLowerCase(), place = low.indexOf(letters);
    if (!letters || place === 0) return 0;
    if (place > 0) return low[place - 1] === " " ? 1 : 2;
    let from = low.search(new RegExp(`(^| )${RegExp.escape?.(letters[0]) ?? letters[0].replace(/\W/, "\\$&")}`));
    if (from < 0) return null;
    if (from > 0) from += 1;
    for (const letter of letters.slice(1)) { from = low.indexOf(letter, from + 1); if (from < 0) return null; }
    return 3;
  }

  function matching(choices, letters) {
    return choices.map((one) => ({ ...one, rank: rank(one.text, letters) })).filter((one) => one.rank !== null).sort((a, b) => a.rank - b.rank);
  }

  function show() {
    const typed = input.value.trim().toLowerCase(), onlyActions = typed.startsWith(">"), letters = typed.replace(/^>\s*/, "");
    const local = matching(onlyActions ? actions() : [...pages(), ...actions()], letters);
    const shown = onlyActions ? local : [...local, ...found];
    const groups = [...new Set(shown.map((one) => one.group))];
    options = groups.flatMap((group) => shown.filter((one) => one.group === group).slice(0, letters || onlyActions ? MOST_OF_A_GROUP : 24));
    at = Math.min(at, Math.max(options.length - 1, 0));
    list.replaceChildren(...groups.map(drawn));
    $("#palette-none").hidden = options.length > 0;
    $("#palette-count").textContent = options.length ? `${options.length} choices` : "";
    select(at);
  }

  function drawn(group, number) {
    const title = element("div", { class: "group", id: `palette-group-${number}`, role: "presentation" }, group);
    const inside = options.flatMap((one, place) => (one.group === group ? [line(one, place)] : []));
    const box = element("div", { role: "group", "aria-labelledby": title.id });
    box.append(title, ...inside);
    return box;
  }

  function line(one, place) {
    const made = element("div", { role: "option", id: `palette-${place}`, "aria-selected": "false", "data-place": place });
    made.append(element("span", { class: "said", dir: "auto" }, one.text));
    if (one.hint) made.append(element("span", { class: "muted hint" }, one.hint));
    return made;
  }

  function element(name, attributes, text) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function select(place) {
    $('[aria-selected="true"]', list)?.setAttribute("aria-selected", "false");
    at = place;
    const chosen = $(`#palette-${at}`);
    chosen?.setAttribute("aria-selected", "true");
    chosen?.scrollIntoView({ block: "nearest" });
    if (chosen) input.setAttribute("aria-activedescendant", chosen.id); else input.removeAttribute("aria-activedescendant");
  }

  function take(place, inNewTab) {
    const one = options[place];
    if (!one) return;
    dialog.close();
    if (one.press) one.press.click();
    else if (inNewTab) window.open(one.href, "_blank", "noopener");
    else location.assign(one.href);
  }

  async function find() {
    const question = input.value.trim(), mine = (asked += 1);
    if (question.length < 2 || question.startsWith(">")) { found = []; show(); return; }
    let answer;
    try { answer = await fragment(`/console/palette?${new URLSearchParams({ q: question })}`); } catch { return; }
    if (mine !== asked || !dialog.open) return;
    if (answer.status === 401) { dialog.close(); signedOut(); return; }
    const page = answer.ok ? new DOMParser().parseFromString(await answer.text(), "text/html") : null;
    if (mine !== asked || !page) return;
    found = all("[data-group]", page).map((link) => ({ group: link.dataset.group, text: link.textContent.trim(), hint: link.dataset.hint, href: link.getAttribute("href") }));
    show();
  }

  function open(typed = "") {
    if (dialog.open || $("dialog[open]")) return;
    cameFrom = document.activeElement;
    input.value = typed;
    [found, at] = [[], 0];
    dialog.showModal();
    show();
    input.focus();
  }

  dialog.addEventListener("close", () => { asked += 1; clearTimeout(timer); cameFrom?.focus?.({ preventScroll: true }); });
  dialog.addEventListener("click", (event) => {
    const option = event.target.closest("[data-place]");
    if (option) take(Number(option.dataset.place), event.ctrlKey || event.metaKey);
    else if (event.target === dialog) dialog.close(); // beside it
  });
  list.addEventListener("mousemove", (event) => { const option = event.target.closest("[data-place]"); if (option && Number(option.dataset.place) !== at) select(Number(option.dataset.place)); });
  input.addEventListener("input", () => { at = 0; show(); clearTimeout(timer); timer = setTimeout(find, PAUSE); });
  input.addEventListener("keydown", (event) => {
    const last = options.length - 1;
    if (event.key === "Enter") { event.preventDefault(); take(at, event.ctrlKey || event.metaKey); return; }
    const to = { ArrowDown: at >= last ? 0 : at + 1, ArrowUp: at <= 0 ? last : at - 1, PageDown: Math.min(at + 8, last), PageUp: Math.max(at - 8, 0) }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    select(to);
  });
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && event.key.toLowerCase() === "k") {
      event.preventDefault();
      if (dialog.open) dialog.close(); else open();
    }
  });
  document.addEventListener("click", (event) => { if (event.target.closest("#palette-button")) open(); });
  window.recollect.palette = open;
})();
