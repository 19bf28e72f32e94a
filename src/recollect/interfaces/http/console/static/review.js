// The review of everything that matches the filter, not only of one page: some at a time, with progress, and undone whole.
(() => {
  "use strict";
  const { $, all, ask, confirmed, once, pathOf, reload, tell, verdicts, past } = window.recollect;
  const place = $("[data-whole-filter]"), KEPT = "recollect-judged", AT_ONCE = 6, MOST = 10000, PAUSE = 2000;
  if (!place) return;
  const bar = $("progress", place), said = $("[data-whole-said]"), stop = $("[data-whole-stop]"), undo = $("[data-whole-undo]");
  let isStopped = false, judged = null;

  async function matching() {
    const filters = JSON.parse(place.dataset.wholeFilter), found = [];
    let after = "";
    while (after !== null && found.length < MOST && !isStopped) {
      const query = new URLSearchParams({ limit: 200, count_all: false });
      for (const [name, value] of Object.entries(filters)) for (const one of [value].flat()) if (one) query.append(name, one);
      if (after) query.set("after", after);
      const page = await ask("GET", `/v1/review?${query}`);
      found.push(...page.memories.map((one) => one.id));
      after = page.next ?? null;
      said.textContent = `Looking for what matches: ${found.length.toLocaleString("en")}`;
    }
    return found.slice(0, MOST);
  }

  // Whoever asks too often in a minute waits, and goes on.
  async function patiently(work) {
    for (;;) {
      try { return await work(); } catch (problem) {
        if (problem.status !== 429 || isStopped) throw problem;
        await new Promise((resolve) => { setTimeout(resolve, PAUSE); });
      }
    }
  }

  // Some at a time; what is refused is counted by its reason, and `done` hears of every stretch.
  async function each(list, doing, work, done) {
    const reasons = new Map();
    let count = 0;
    [bar.max, bar.value, bar.hidden, stop.hidden, undo.hidden] = [list.length, 0, false, false, true];
    for (let at = 0; at < list.length && !isStopped; at += AT_ONCE) {
      const results = await Promise.allSettled(list.slice(at, at + AT_ONCE).map((one) => patiently(() => work(one))));
      for (const one of results) if (one.status === "rejected") reasons.set(one.reason.message, (reasons.get(one.reason.message) ?? 0) + 1);
      const well = results.map((one, place) => (one.status === "fulfilled" ? { given: list[at + place], reply: one.value } : null)).filter(Boolean);
      count += well.length;
      done(well);
      bar.value = Math.min(at + AT_ONCE, list.length);
      said.textContent = `${doing}: ${bar.value.toLocaleString("en")} of ${list.length.toLocaleString("en")}`;
      if (reasons.has("You are signed out")) break;
    }
    [bar.hidden, stop.hidden] = [true, true];
    return { count, reasons };
  }

  function summary(word, { count, reasons }) {
    const refused = [...reasons.values()].reduce((sum, one) => sum + one, 0);
    const why = [...reasons].sort((a, b) => b[1] - a[1]).slice(0, 3).map(([text, times]) => `${times.toLocaleString("en")}: ${text}`);
    return `${word}: ${count.toLocaleString("en")}.${refused ? ` Refused: ${refused.toLocaleString("en")} (${why.join("; ")})` : ""}${isStopped ? " Stopped." : ""}`;
  }

  // Kept after every stretch: what was done before a page was left can be taken back when it is opened again.
  function keep() {
    try {
      if (judged?.done.length) sessionStorage.setItem(KEPT, JSON.stringify(judged)); else sessionStorage.removeItem(KEPT);
    } catch { /* it can be undone for as long as the page is open */ }
    undo.hidden = !judged?.done.length || !stop.hidden; // not while it works
    if (!undo.hidden) undo.textContent = `Undo all ${judged.done.length.toLocaleString("en")}`;
  }

  async function judgeAll(button) {
    await once(button, async () => {
      isStopped = false;
      const verdict = button.dataset.whole, ids = await matching(), number = ids.length.toLocaleString("en");
      said.textContent = "";
      const word = verdict === "approve" ? "Approve" : "Reject";
      if (!ids.length || !(await confirmed(`${word} all ${number} that match?`, "Each is checked as if you did it one by one. You can stop, and undo all of it in this tab."))) return;
      judged = { verdict, who: place.dataset.who, done: [] };
      const result = await each(ids, past[verdict], (id) => verdicts[verdict](id), (well) => {
        for (const { given, reply } of well) { judged.done.push([given, reply.version ?? null]); $(`.review > [data-id="${CSS.escape(given)}"]`)?.remove(); }
        keep();
      });
      said.textContent = judged.said = summary(past[verdict], result);
      keep();
      if (result.count) location.reload(); else said.focus(); // the page shows what is left, and offers to undo it
    });
  }

  // Only what nobody changed since: the version is that of the verdict. What cannot be taken back is not tried again.
  async function undoAll() {
    await once(undo, async () => {
      isStopped = false;
      const list = [...judged.done].reverse(), why = `${past[judged.verdict].toLowerCase()} by mistake`;
      const result = await each(list, "Undone", ([id, version]) => ask("POST", `${pathOf(id)}/demote`, { why, ...(version && { version }) }), (well) => {
        const back = new Set(well.map(({ given }) => given[0]));
        judged.done = judged.done.filter(([id]) => !back.has(id));
        keep();
      });
      if (!isStopped && !result.reasons.has("You are signed out")) { judged = null; }
      const told = summary("Undone", result);
      if (judged) judged.said = told;
      keep();
      if (result.reasons.size) { said.textContent = told; said.focus(); } else reload(told);
    });
  }

  all("[data-whole]", place).forEach((button) => button.addEventListener("click", () => judgeAll(button)));
  undo.addEventListener("click", undoAll);
  stop.addEventListener("click", () => { isStopped = true; });
  try {
    const kept = JSON.parse(sessionStorage.getItem(KEPT));
    if (kept?.who === place.dataset.who) { judged = kept; said.textContent = kept.said ?? `${past[kept.verdict]} before the page was left: ${kept.done.length.toLocaleString("en")}.`; keep(); }
  } catch { tell("What was judged before cannot be undone here", true); }

  // Shift and space choose from the last chosen to here; A goes to what is done with all.
  let last = null;
  document.addEventListener("change", ({ target }) => { if ("choose" in target.dataset) last = target; });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !event.shiftKey || $("dialog[open]") || event.target.matches("input:not([type=checkbox]), textarea, select, button, a, summary")) return;
    if (event.key === "A") { event.preventDefault(); $("[data-whole]", place).focus(); }
    if (event.key !== " ") return;
    const boxes = all("[data-choose]"), to = boxes.indexOf($("[data-item].at [data-choose]")), from = boxes.indexOf(last);
    if (to < 0) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    for (const box of boxes.slice(Math.min(from < 0 ? to : from, to), Math.max(from, to) + 1)) if (!box.checked) box.click();
  }, { capture: true });
})();
