// What the console's pages do: keys, live search, and asking the API to change things.
// Text from the store is only ever put into a page as text, or as HTML that the server escaped.
(() => {
  "use strict";
  const $ = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const proof = $('meta[name="recollect-proof"]').content;

  // --- asking the API -----------------------------------------------------------------------------------------
  async function ask(method, path, body) {
    const sent = { method, headers: { "x-recollect-csrf": proof }, credentials: "same-origin" };
    if (method !== "GET" && method !== "DELETE") {
      sent.headers["content-type"] = "application/json";
      sent.body = JSON.stringify(body ?? {});
    } else if (body) {
      path += "?" + new URLSearchParams(body);
    }
    const answer = await fetch(path, sent);
    const told = answer.status === 204 ? {} : await answer.json();
    if (!answer.ok) throw new Error([told.error?.message, told.error?.remedy].filter(Boolean).join(": "));
    return told;
  }

  let hiding;
  function tell(text, isBad = false) {
    const place = $("#told");
    place.textContent = text;
    place.className = isBad ? "shown bad" : "shown";
    clearTimeout(hiding);
    hiding = setTimeout(() => { place.className = ""; }, isBad ? 8000 : 3500);
  }

  // What is told right before a page is loaded again is told by the next one.
  function reload(text, path) {
    try { sessionStorage.setItem("recollect-told", text); } catch { /* it is only not told */ }
    if (path) location.assign(path); else location.reload();
  }
  try {
    const kept = sessionStorage.getItem("recollect-told");
    sessionStorage.removeItem("recollect-told");
    if (kept) tell(kept);
  } catch { /* nothing was kept */ }

  async function attempt(work) {
    try { return await work(); } catch (problem) { tell(problem.message, true); return null; }
  }

  function confirmed(title, text) {
    const dialog = $("#confirm");
    $("#confirm-title").textContent = title;
    $("#confirm-text").textContent = text ?? "";
    $("#confirm-why").value = "";
    dialog.returnValue = "cancel";
    dialog.showModal();
    $("#confirm-why").focus();
    return new Promise((resolve) => {
      dialog.addEventListener("close", () => {
        resolve(dialog.returnValue === "yes" ? { why: $("#confirm-why").value.trim() } : null);
      }, { once: true });
    });
  }
  // Enter in the reason means yes, not the first button of the form.
  $("#confirm-why").addEventListener("keydown", (event) => {
    if (event.key === "Enter") { event.preventDefault(); $("#confirm").close("yes"); }
  });

  // --- one memory ---------------------------------------------------------------------------------------------
  const memory = $("[data-memory]");
  const pathOf = (id) => `/v1/memories/${encodeURIComponent(id)}`;
  const version = () => Number(memory.dataset.version);

  async function act(button) {
    const given = await confirmed(button.dataset.title, button.dataset.text);
    if (!given) return;
    const what = button.dataset.act;
    const body = { version: version() };
    if (given.why) body.why = given.why;
    if (button.dataset.to) body.to = button.dataset.to;
    const id = memory.dataset.memory;
    await attempt(async () => {
      if (what === "erase") {
        await ask("DELETE", pathOf(id), body);
        reload("It is erased", "/console/search");
      } else {
        await ask("POST", `${pathOf(id)}/${what}`, body);
        reload({ promote: "Promoted", demote: "It is a hypothesis again", archive: "Archived", forget: "Forgotten", restore: "Restored" }[what]);
      }
    });
  }

  async function checkCitations() {
    await attempt(async () => {
      const found = await ask("POST", "/v1/check", { id: memory.dataset.memory });
      reload(`${found.looked_at} looked at: ${found.holds} hold, ${found.broken} broken, ${found.unreachable} could not be reached`);
    });
  }

  $("[data-revise]")?.addEventListener("submit", async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    await attempt(async () => {
      await ask("PATCH", pathOf(memory.dataset.memory), { content: form.get("content"), why: form.get("why"), version: version() });
      reload("Changed; its former state is in the history");
    });
  });

  // --- review -------------------------------------------------------------------------------------------------
  async function neighbours(card) {
    const place = $("[data-neighbours]", card);
    if (!place || place.childElementCount || card.dataset.asked) return;
    card.dataset.asked = "yes";
    const answer = await fetch(card.dataset.near, { headers: { "x-recollect-fragment": "1" }, credentials: "same-origin" });
    if (!answer.ok) return;
    place.innerHTML = await answer.text();
    const merge = $('[data-verdict="merge"]', card);
    if (merge) merge.hidden = !$('input[type="radio"]', place);
  }

  async function merge(id, card) {
    await neighbours(card);
    const into = $('[data-neighbours] input[type="radio"]:checked', card)?.value;
    if (!into) throw new Error("There is no neighbour to merge into");
    const shown = await ask("GET", pathOf(id));
    // The evidence goes over first: whatever fails after that, nothing is lost.
    if (shown.citations.length) await ask("POST", `${pathOf(into)}/citations`, { cites: shown.citations.map((one) => one.evidence) });
    await ask("POST", `${pathOf(id)}/links`, { to: into, type: "merged_into" });
    await ask("POST", `${pathOf(id)}/archive`, { why: `merged into ${into}` });
  }

  const verdicts = {
    approve: (id) => ask("POST", `${pathOf(id)}/promote`, { to: "verified", why: "approved in review" }),
    reject: (id) => ask("POST", `${pathOf(id)}/archive`, { why: "rejected in review" }),
    merge,
  };
  const past = { approve: "Approved", reject: "Rejected", merge: "Merged" };

  async function judge(card, verdict) {
    card.classList.add("busy");
    const done = await attempt(async () => { await verdicts[verdict](card.dataset.id, card); return true; });
    card.classList.remove("busy");
    if (!done) return false;
    const next = card.nextElementSibling ?? card.previousElementSibling;
    const wasAt = card.classList.contains("at");
    card.remove();
    tell(past[verdict]);
    if (wasAt && next) point(next);
    if (!$(".review > li")) location.reload();
    return true;
  }

  async function judgeChosen(verdict) {
    const chosen = all("[data-choose]:checked").map((box) => box.closest("[data-id]"));
    if (!chosen.length) { tell("Nothing is chosen"); return; }
    let done = 0;
    for (const card of chosen) if (await judge(card, verdict)) done += 1;
    if (done === chosen.length) tell(`${past[verdict]}: ${done}`);
  }

  // --- what buttons say in their attributes ----------------------------------------------------------------------
  async function send(button, method) {
    if (button.dataset.title && !(await confirmed(button.dataset.title, button.dataset.text))) return;
    const body = button.dataset.body ? JSON.parse(button.dataset.body) : {};
    const path = button.dataset.post ?? button.dataset.patch;
    await attempt(async () => { await ask(method, path, body); reload("Done"); });
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button || button.disabled) return;
    const { dataset } = button;
    if (dataset.act) act(button);
    else if ("check" in dataset) checkCitations();
    else if (dataset.post) send(button, "POST");
    else if (dataset.patch) send(button, "PATCH");
    else if (dataset.bulk) judgeChosen(dataset.bulk);
    else if (dataset.verdict === "near") neighbours(button.closest("[data-id]"));
    else if (dataset.verdict) judge(button.closest("[data-id]"), dataset.verdict);
    else if ("verifyLog" in dataset) verifyLog();
    else if (button.id === "theme-button") switchTheme();
    else if (button.id === "help-button") $("#help").showModal();
    else if (button.id === "menu-button") toggleMenu(button);
    else if (button.id === "sign-out") signOut();
    else if (button.id === "copy-key") copyKey();
  });

  async function signOut() {
    await attempt(async () => { await ask("POST", "/console/sign-out"); location.assign("/console/sign-in"); });
  }

  function toggleMenu(button) {
    const isOpen = document.body.classList.toggle("menu-open");
    button.setAttribute("aria-expanded", String(isOpen));
  }

  function switchTheme() {
    const root = document.documentElement;
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    try { localStorage.setItem("recollect-theme", root.dataset.theme); } catch { /* it lasts for this page only */ }
  }

  // --- service ---------------------------------------------------------------------------------------------------
  async function verifyLog() {
    await attempt(async () => {
      const found = await ask("POST", "/v1/audit/verify");
      const place = $("#verified");
      place.className = found.sound ? "note" : "trouble";
      place.textContent = found.sound
        ? `The log is whole: ${found.entries} entries under ${found.seals} seals, ${found.unsealed} wait for theirs.`
        : `The log was tampered with: ${found.problems.join("; ")}`;
    });
  }

  $("[data-add-key]")?.addEventListener("submit", async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    const body = { name: form.get("name"), scopes: form.getAll("scopes") };
    if (form.get("expires_days")) body.expires_days = Number(form.get("expires_days"));
    await attempt(async () => {
      const made = await ask("POST", "/v1/keys", body);
      $("#made-key-text").textContent = made.key;
      $("#made-key").hidden = false;
      event.target.reset();
      $("#copy-key").focus();
    });
  });

  async function copyKey() {
    await attempt(async () => { await navigator.clipboard.writeText($("#made-key-text").textContent); tell("Copied"); });
  }

  $("[data-add-user]")?.addEventListener("submit", async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    await attempt(async () => {
      const body = { name: form.get("name") };
      if (form.get("email")) body.email = form.get("email");
      const made = await ask("POST", "/v1/users", body);
      const more = {};
      for (const name of ["role", "password"]) if (form.get(name)) more[name] = form.get(name);
      if (Object.keys(more).length) await ask("PATCH", `/v1/users/${encodeURIComponent(made.id)}`, more);
      reload("Added");
    });
  });

  // --- live search -----------------------------------------------------------------------------------------------
  const search = $("#search");
  let waiting, asked = 0;
  async function refresh() {
    const place = $("#results");
    const query = new URLSearchParams([...new FormData(search)].filter(([, value]) => value));
    const mine = (asked += 1);
    place.setAttribute("aria-busy", "true");
    const answer = await fetch(`/console/search/results?${query}`, { headers: { "x-recollect-fragment": "1" }, credentials: "same-origin" });
    if (mine !== asked) return; // a later question was asked meanwhile
    if (answer.status === 401) { location.reload(); return; }
    place.innerHTML = await answer.text();
    place.setAttribute("aria-busy", "false");
    history.replaceState(null, "", `/console/search${query.size ? "?" + query : ""}`);
  }
  search?.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(refresh, 180); });
  search?.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(waiting); refresh(); });

  // --- keyboard --------------------------------------------------------------------------------------------------
  const items = () => all("[data-item]");
  const current = () => $("[data-item].at");

  function point(item) {
    current()?.classList.remove("at");
    item.classList.add("at");
    item.scrollIntoView({ block: "nearest" });
    (item.matches("[tabindex], a") ? item : $("a", item))?.focus({ preventScroll: true });
    if (item.dataset.near) neighbours(item);
  }

  function step(by) {
    const list = items();
    if (!list.length) return;
    const at = list.indexOf(current());
    point(list[at < 0 ? 0 : Math.min(Math.max(at + by, 0), list.length - 1)]);
  }

  let isGoing = false;
  function go(letter) {
    isGoing = false;
    document.body.classList.remove("going");
    const link = $(`#menu a[data-letter="${CSS.escape(letter)}"]`);
    if (link) location.assign(link.href);
  }

  function judgeByKey(key) {
    const card = current();
    if (!card?.dataset.id) return false;
    if (key === " ") { const box = $("[data-choose]", card); box.checked = !box.checked; return true; }
    const verdict = { a: "approve", x: "reject", m: "merge" }[key];
    const button = verdict && $(`[data-verdict="${verdict}"]`, card);
    if (!button || button.disabled) return false;
    judge(card, verdict);
    return true;
  }

  const plain = {
    "/": () => { const box = $("#q") ?? $("#quick"); box.focus(); box.select(); },
    "?": () => $("#help").showModal(),
    g: () => { isGoing = true; document.body.classList.add("going"); setTimeout(() => { isGoing = false; document.body.classList.remove("going"); }, 1500); },
    j: () => step(1),
    k: () => step(-1),
    t: switchTheme,
  };

  document.addEventListener("keydown", (event) => {
    const { target, key } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (target.matches("input:not([type=checkbox]):not([type=radio]), textarea, select")) {
      if (key === "Escape") target.blur();
      return;
    }
    if (isGoing) { event.preventDefault(); go(key); return; }
    if (judgeByKey(key) && !target.matches("button")) { event.preventDefault(); return; }
    if (plain[key]) { event.preventDefault(); plain[key](); }
  });
})();
