// What the console's pages do: keys, live search, and asking the API to change things.
// Text from the store is only ever put into a page as text, or as HTML that the server escaped.
(() => {
  "use strict";
  const $ = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const meta = (name, within = document) => $(`meta[name="recollect-${name}"]`, within)?.content ?? "";
  let proof = meta("proof");

  // --- asking the API -----------------------------------------------------------------------------------------
  async function ask(method, path, body, isAgain = false) {
    const sent = { method, headers: { "x-recollect-csrf": proof }, credentials: "same-origin" };
    let to = path;
    if (method !== "GET" && method !== "DELETE") {
      sent.headers["content-type"] = "application/json";
      sent.body = JSON.stringify(body ?? {});
    } else if (body) {
      to += "?" + new URLSearchParams(body);
    }
    const answer = await reached(to, sent);
    if (answer.status === 401) { askToSignIn(); throw new Error("You are signed out"); }
    if (answer.status === 403 && !isAgain && (await provenAgain())) return ask(method, path, body, true);
    const told = answer.status === 204 ? {} : await answer.json();
    if (!answer.ok) throw Object.assign(new Error([told.error?.message, told.error?.remedy].filter(Boolean).join(": ")), { status: answer.status });
    return told;
  }

  function askToSignIn() {
    if (!$("#left").open) $("#left").showModal();
  }

  async function reached(path, sent) {
    try { return await fetch(path, sent); } catch { throw new Error("The service cannot be reached; nothing was changed"); }
  }

  // Who signed in again in another tab goes on here; whoever else did must load the page anew.
  async function provenAgain() {
    const answer = await reached("/console/search", { credentials: "same-origin" });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = meta("proof", page);
    if (!fresh || fresh === proof || meta("who", page) !== meta("who")) return false;
    proof = fresh;
    return true;
  }

  const fragment = (path) => reached(path, { headers: { "x-recollect-fragment": "1" }, credentials: "same-origin" });

  let hiding, undoing = null;
  function tell(text, isBad = false, undo = null) {
    const place = $("#told");
    $("#told-text").textContent = text;
    $("#undo").hidden = !undo;
    undoing = undo;
    place.className = isBad ? "shown bad" : "shown";
    clearTimeout(hiding);
    hiding = setTimeout(() => { place.className = ""; undoing = null; $("#undo").hidden = true; }, undo ? 20000 : isBad ? 8000 : 3500);
  }

  // What is told right before a page is loaded again is told by the next one, with what can be taken back.
  function reload(text, path, judged = []) {
    try { sessionStorage.setItem("recollect-told", JSON.stringify({ text, judged })); } catch { /* it is only not told */ }
    if (path) location.assign(path); else location.reload();
  }
  try {
    const kept = sessionStorage.getItem("recollect-told");
    sessionStorage.removeItem("recollect-told");
    if (kept) { const { text, judged } = JSON.parse(kept); tell(text, false, undoOf(judged)); }
  } catch { /* nothing was kept */ }

  async function attempt(work) {
    try { return await work(); } catch (problem) { tell(problem.message, true); return null; }
  }

  // One thing at a time: what is clicked twice is done once.
  let isBusy = false;
  async function once(button, work) {
    if (isBusy) return null;
    isBusy = true;
    button?.setAttribute("aria-busy", "true");
    try { return await attempt(work); } finally { isBusy = false; button?.removeAttribute("aria-busy"); }
  }

  // `asks` names what may be said along with the yes: why, or a label.
  const questions = { why: ["Reason", "Kept in the history"], reason: ["Reason", "Kept with it"], label: ["Label", "Optional name"] };
  function confirmed(title, text, asks) {
    const dialog = $("#confirm");
    $("#confirm-title").textContent = title;
    $("#confirm-text").textContent = text ?? "";
    $("#confirm-why").value = "";
    $("#confirm-ask").hidden = !asks;
    if (asks) [$("#confirm-label").textContent, $("#confirm-why").placeholder] = questions[asks];
    dialog.returnValue = "cancel";
    dialog.showModal();
    $(asks ? "#confirm-why" : "#confirm-yes").focus();
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
    const given = await confirmed(button.dataset.title, button.dataset.text, "why");
    if (!given) return;
    const what = button.dataset.act;
    const body = { version: version() };
    if (given.why) body.why = given.why;
    if (button.dataset.to) body.to = button.dataset.to;
    const id = memory.dataset.memory;
    await once(button, async () => {
      if (what === "erase") {
        await ask("DELETE", pathOf(id), body);
        reload("Erased", "/console/search");
      } else {
        await ask("POST", `${pathOf(id)}/${what}`, body);
        reload({ promote: "Promoted", demote: "Demoted", archive: "Archived", forget: "Forgotten", restore: "Restored", unmerge: "Merge undone" }[what]);
      }
    });
  }

  async function checkCitations(button) {
    const { check, title, text } = button.dataset;
    if (title && !(await confirmed(title, text))) return;
    await once(button, async () => {
      const found = await ask("POST", "/v1/check", check ? JSON.parse(check) : { id: memory.dataset.memory });
      reload(`${found.looked_at} checked: ${found.holds} hold, ${found.claimed} claimed, ${found.broken} broken, ${found.unreachable} unreachable`);
    });
  }

  $("[data-revise]")?.addEventListener("submit", async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    await once(event.submitter, async () => {
      await ask("PATCH", pathOf(memory.dataset.memory), { content: form.get("content"), why: form.get("why"), version: version() });
      reload("Saved; the previous version is in the history");
    });
  });

  $("[data-cite]")?.addEventListener("submit", async (event) => {
    event.preventDefault();
    const comment = new FormData(event.target).get("comment");
    await once(event.submitter, async () => {
      const cites = [{ type: "user", user_id: meta("who"), comment }];
      await ask("POST", `${pathOf(memory.dataset.memory)}/citations`, { cites });
      reload("Cited");
    });
  });

  // --- review -------------------------------------------------------------------------------------------------
  async function neighbours(card) {
    const place = $("[data-neighbours]", card);
    card.neighbours ??= (async () => {
      const answer = await fragment(card.dataset.near);
      if (!answer.ok) { $("p", place).textContent = "They could not be loaded."; return; }
      place.innerHTML = await answer.text();
      const merge = $('[data-verdict="merge"]', card);
      if (merge) merge.hidden = !$('input[type="radio"]', place);
    })();
    return card.neighbours;
  }
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) { seen.unobserve(entry.target); neighbours(entry.target).catch(() => {}); }
  }, { rootMargin: "200px" });
  all("[data-near]").forEach((card) => seen.observe(card));

  async function merge(id, card) {
    await neighbours(card);
    const into = $('[data-neighbours] input[type="radio"]:checked', card)?.value;
    if (!into) throw new Error("Select the similar memory to merge into first");
    await ask("POST", `${pathOf(into)}/merge`, { others: [id], why: "merged in review" });
  }

  const verdicts = {
    approve: (id) => ask("POST", `${pathOf(id)}/promote`, { to: "verified", why: "approved in review" }),
    reject: (id) => ask("POST", `${pathOf(id)}/archive`, { why: "rejected in review" }),
    merge,
  };
  const past = { approve: "Approved", reject: "Rejected", merge: "Merged" };

  // What was judged last is taken back first: it may rest on what came before.
  function undoOf(judged) {
    return judged.length ? () => attempt(() => takeBack(judged)) : null;
  }

  async function takeBack(judged) {
    const stays = [];
    for (const [verdict, id] of [...judged].reverse()) {
      const back = verdict === "merge" ? "unmerge" : "demote";
      try { await ask("POST", `${pathOf(id)}/${back}`, { why: `${past[verdict].toLowerCase()} by mistake` }); } catch (problem) { stays.push(problem.message); }
    }
    const back = judged.length - stays.length;
    if (stays.length) tell(`Undone: ${back}. Not undone: ${stays.length} (${stays[0]})`, true);
    else reload(back === 1 ? "Undone" : `Undone: ${back}`);
  }

  // True, or what stood against it, which is also said on the card.
  async function judge(card, verdict) {
    if (card.classList.contains("busy")) return "still working on it";
    card.classList.add("busy");
    const refused = $(".refused", card);
    try {
      await verdicts[verdict](card.dataset.id, card);
    } catch (problem) {
      refused.textContent = problem.message;
      refused.hidden = false;
      return problem.message;
    } finally {
      card.classList.remove("busy");
    }
    const next = card.nextElementSibling ?? card.previousElementSibling;
    const wasAt = card.classList.contains("at");
    card.remove();
    const waiting = $("[data-waiting]");
    waiting.textContent = (Number(waiting.textContent.replaceAll(",", "")) - 1).toLocaleString("en");
    countChosen();
    if (wasAt && next) point(next);
    return true;
  }

  async function judgeOne(card, verdict) {
    const done = await judge(card, verdict);
    if (done !== true) tell(done, true); else tellJudged(past[verdict], [[verdict, card.dataset.id]]);
  }

  async function judgeChosen(verdict) {
    const chosen = all("[data-choose]:checked").map((box) => box.closest("[data-id]")), judged = [];
    for (const card of chosen) if ((await judge(card, verdict)) === true) judged.push([verdict, card.dataset.id]);
    const done = `${past[verdict]}: ${judged.length}`, refused = chosen.length - judged.length;
    if (refused) tell(`${done}. Refused: ${refused}; each card says why`, true, undoOf(judged)); else tellJudged(done, judged);
  }

  function tellJudged(text, judged) {
    if ($(".review > li")) tell(text, false, undoOf(judged)); else reload(text, undefined, judged);
  }

  function countChosen() {
    const boxes = all("[data-choose]"), chosen = boxes.filter((box) => box.checked).length;
    const whole = $("[data-choose-all]");
    if (!whole) return;
    whole.checked = chosen > 0 && chosen === boxes.length;
    whole.indeterminate = chosen > 0 && chosen < boxes.length;
    $("[data-chosen]").textContent = chosen ? `${chosen} selected` : "Select all on this page";
    all("[data-bulk]").forEach((button) => { button.disabled = !chosen; });
  }
  document.addEventListener("change", ({ target }) => {
    if ("chooseAll" in target.dataset) all("[data-choose]").forEach((box) => { box.checked = target.checked; });
    if ("choose" in target.dataset || "chooseAll" in target.dataset) countChosen();
    if ("submits" in target.dataset) target.form.requestSubmit();
  });
  countChosen(); // a page that comes back from the history may come with its choices

  // --- what buttons say in their attributes ----------------------------------------------------------------------
  async function send(button, method) {
    const { title, text, ask: asks, body: fixed, done, goes, then } = button.dataset;
    const given = title ? await confirmed(title, text, asks) : {};
    if (!given) return;
    const body = fixed ? JSON.parse(fixed) : {};
    if (asks && given.why) body[asks] = given.why;
    const path = button.dataset.post ?? button.dataset.patch ?? button.dataset.delete;
    await once(button, async () => {
      const made = await ask(method, path, body);
      reload(done ?? "Done", then ?? (goes ? goes + encodeURIComponent(made.id) : undefined));
    });
  }

  // What goes, and whose it is, is shown before anything is removed.
  async function removeParty(button) {
    const path = button.dataset.remove;
    const told = await attempt(() => ask("DELETE", path, { dry_run: true }));
    if (!told) return;
    if (told.refused) { tell(told.refused, true); return; }
    const takes = told.takes.map((one) => `${one.count} ${one.table.replaceAll("_", " ")}${one.others ? ` of ${one.owner_name || one.owner}` : ""}`);
    if (!(await confirmed(button.dataset.title, `This also removes: ${takes.join(", ")}. You can restore it for some time.`))) return;
    await once(button, async () => { await ask("DELETE", path); reload("Removed; you can restore it for some time"); });
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button || button.disabled) return;
    const { dataset } = button;
    if (dataset.act) act(button);
    else if ("check" in dataset) checkCitations(button);
    else if (dataset.post) send(button, "POST");
    else if (dataset.patch) send(button, "PATCH");
    else if (dataset.delete) send(button, "DELETE");
    else if (dataset.remove) removeParty(button);
    else if (dataset.bulk) judgeChosen(dataset.bulk);
    else if (dataset.verdict) judgeOne(button.closest("[data-id]"), dataset.verdict);
    else if ("verifyLog" in dataset) verifyLog(button);
    else if (dataset.editUser) editUser(dataset);
    else if ("close" in dataset) button.closest("dialog").close();
    else if (button.id === "undo") undoing?.();
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
  async function verifyLog(button) {
    await once(button, async () => {
      const found = await ask("POST", "/v1/audit/verify");
      const place = $("#verified");
      place.className = found.sound ? "note" : "trouble";
      place.textContent = found.sound
        ? `✓ The log was not tampered with: ${found.entries.toLocaleString("en")} entries, ${found.seals.toLocaleString("en")} seals, ${found.unsealed.toLocaleString("en")} entries not sealed yet.`
        : `✗ The log was tampered with: ${found.problems.join("; ")}`;
      if (found.anchor) place.append(document.createElement("br"), `Keep this anchor elsewhere, to verify the log against it later: ${found.anchor}`);
    });
  }

  $("[data-add-key]")?.addEventListener("submit", async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    const body = { name: form.get("name"), scopes: form.getAll("scopes") };
    if (form.get("expires_days")) body.expires_days = Number(form.get("expires_days"));
    await once(event.submitter, async () => {
      const made = await ask("POST", "/v1/keys", body);
      $("#made-key-text").textContent = made.key;
      $("#made-key").hidden = false;
      event.target.reset();
      $("#copy-key").focus();
      await listAnew();
    });
  });

  // The list with the new key in it, while the key itself stays to be copied.
  async function listAnew() {
    const answer = await reached(location.href, { credentials: "same-origin" });
    const fresh = $("#keys", new DOMParser().parseFromString(await answer.text(), "text/html"));
    if (fresh && $("#keys")) $("#keys").replaceWith(fresh);
  }

  async function copyKey() {
    await attempt(async () => { await navigator.clipboard.writeText($("#made-key-text").textContent); tell("Copied"); });
  }

  function editUser({ editUser: id, ...known }) {
    const form = $("[data-change-user]");
    form.reset();
    form.dataset.changeUser = id;
    for (const field of ["name", "email", "role", "timezone"]) form.elements[field].value = known[field];
    $("#user").showModal();
  }

  $("[data-change-user]")?.addEventListener("submit", async (event) => {
    event.preventDefault();
    const form = event.target;
    const body = Object.fromEntries([...new FormData(form)].filter(([, value]) => value));
    await once(event.submitter, async () => {
      await ask("PATCH", `/v1/users/${encodeURIComponent(form.dataset.changeUser)}`, body);
      reload("Changed");
    });
  });

  $("[data-add-user]")?.addEventListener("submit", async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    await once(event.submitter, async () => {
      const body = { name: form.get("name") };
      if (form.get("email")) body.email = form.get("email");
      const made = await ask("POST", "/v1/users", body);
      const more = {};
      for (const name of ["role", "password"]) if (form.get(name)) more[name] = form.get(name);
      if (Object.keys(more).length) await ask("PATCH", `/v1/users/${encodeURIComponent(made.id)}`, more);
      reload("Added");
    });
  });

  $("[data-change-password]")?.addEventListener("submit", async (event) => {
    event.preventDefault();
    const { target: form, submitter } = event, { email, organization } = form.dataset;
    const { password, new_password, again } = Object.fromEntries(new FormData(form));
    if (new_password !== again) { tell("The two new passwords differ", true); $("#again").focus(); return; }
    await once(submitter, async () => {
      await ask("PUT", "/v1/users/me/password", { password, new_password });
      const body = new URLSearchParams({ email, organization, password: new_password });
      const entered = await reached("/console/sign-in", { method: "POST", body, credentials: "same-origin" });
      if (entered.redirected) reload("Changed; you are signed out everywhere else"); else location.assign("/console/sign-in");
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
    const answer = await attempt(() => fragment(`/console/search/results?${query}`));
    const found = answer?.ok ? await answer.text() : "";
    if (mine !== asked) return; // a later question was asked meanwhile: its answer must stay
    place.setAttribute("aria-busy", "false");
    if (!answer) return;
    if (answer.status === 401) { askToSignIn(); return; }
    if (!answer.ok) { tell("The search failed; try again", true); return; }
    place.innerHTML = found;
    history.replaceState(null, "", `/console/search${query.size ? "?" + query : ""}`);
  }
  search?.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(refresh, 180); });
  search?.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(waiting); refresh(); });

  $("[data-save-search]")?.addEventListener("submit", async (event) => {
    event.preventDefault();
    const form = event.target, kept = new URLSearchParams([...new FormData(search)].filter(([, value]) => value));
    if (!kept.size) { tell("Ask something first", true); return; }
    await once(event.submitter, async () => {
      await ask("PUT", form.dataset.saveSearch, { name: form.elements.name.value, search: String(kept) });
      reload("Saved");
    });
  });

  // What the scripts of single pages work with.
  window.recollect = { $, all, ask, attempt, confirmed, fragment, once, reached, reload, tell, proof: () => proof, provenAgain, pathOf, verdicts, past, signedOut: askToSignIn };

  // --- keyboard --------------------------------------------------------------------------------------------------
  const items = () => all("[data-item]");
  const current = () => $("[data-item].at");

  const opener = (item) => $("[data-opens]", item) ?? $("a, summary, button", item);

  function point(item) {
    current()?.classList.remove("at");
    item.classList.add("at");
    item.scrollIntoView({ block: "nearest" });
    (item.matches("[tabindex], a") ? item : opener(item))?.focus({ preventScroll: true });
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
    if (key === " ") { $("[data-choose]", card)?.click(); return true; }
    const verdict = { a: "approve", x: "reject", m: "merge" }[key];
    const button = verdict && $(`[data-verdict="${verdict}"]`, card);
    if (!button || button.disabled) return false;
    judgeOne(card, verdict);
    return true;
  }

  const plain = {
    "/": () => { const box = $("#q") ?? $("#quick"); box.focus(); box.select(); },
    "?": () => $("#help").showModal(),
    g: () => { isGoing = true; document.body.classList.add("going"); setTimeout(() => { isGoing = false; document.body.classList.remove("going"); }, 1500); },
    j: () => step(1),
    k: () => step(-1),
    n: () => $('a[rel="next"]')?.click(),
    ".": () => window.recollect.palette("> "),
    t: switchTheme,
  };

  document.addEventListener("keydown", (event) => {
    const { target, key } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (target.matches("input:not([type=checkbox]):not([type=radio]), textarea, select")) {
      if (key === "Escape") target.blur();
      return;
    }
    if (key === "Escape" && document.body.classList.contains("menu-open")) { toggleMenu($("#menu-button")); return; }
    if (isGoing) { event.preventDefault(); go(key); return; }
    if ((key === " " || key === "Enter") && target.matches("button, summary, a, input")) return; // theirs, not ours
    if (key === "Enter" && target === current()) { opener(target)?.click(); return; }
    if (judgeByKey(key)) { event.preventDefault(); return; }
    if (plain[key]) { event.preventDefault(); plain[key](); }
  });
})();
