// The page of imports: a file is sent as a dry run, what it holds is shown, and only a button stores it.
// Whatever comes from the file is put into the page as text.
(() => {
  "use strict";
  const { $, sendFile, takeFiles, uploadLine } = window.recollect;
  const form = $("[data-import]"), seen = $("#seen");
  const looking = { working: "Reading and checking …", cut: "The file could not be sent; nothing was stored. If it was changed, choose it again" };
  const storing = { working: "Storing: keep this page open …", cut: "The service cannot be reached. What was stored stays; import the file again, and what is here already is skipped" };
  const pages = { memory: "memories", session: "sessions", agent: "agents" };
  let chosen = null, sampled = [], isBusy = false;

  function element(name, attributes, ...inside) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...inside);
    return made;
  }
  const counted = (amount, noun) => `${amount.toLocaleString("en")} ${noun}${amount === 1 ? "" : "s"}`;
  const sum = (list) => list.reduce((total, one) => total + (one.count ?? 1), 0);
  const worded = (what) => what.replaceAll("_", " ");

  // --- sending -----------------------------------------------------------------------------------------------------
  const stay = (event) => event.preventDefault();

  // The reply, or null where it was refused and the page says why; one at a time.
  async function sent(isDryRun) {
    if (isBusy) return null;
    isBusy = true;
    $("#uploads").replaceChildren();
    const line = uploadLine(chosen.name);
    const query = new URLSearchParams({ path: chosen.name, source: $("#source").value, existing: $("#existing").value, dry_run: isDryRun });
    for (const field of form.elements) field.disabled = true;
    if (!isDryRun) window.addEventListener("beforeunload", stay);
    try {
      const told = await sendFile(`${form.dataset.import}?${query}`, chosen, line, isDryRun ? looking : storing);
      line.bar.value = 1;
      line.said.textContent = isDryRun ? "Checked; nothing is stored yet" : "Done";
      return told;
    } catch (problem) {
      line.refused(problem.message);
      return null;
    } finally {
      isBusy = false;
      for (const field of form.elements) field.disabled = false;
      window.removeEventListener("beforeunload", stay);
    }
  }

  function reasonAgainst(files, folders) {
    if (folders) return "A folder cannot be sent: make a zip of it and drop that";
    if (files.length !== 1) return "One file at a time: put several into a zip";
    const most = Number(form.dataset.most);
    return files[0].size > most ? `It is larger than ${most.toLocaleString("en")} bytes: run \`recollect import\` on the machine of the service` : "";
  }

  async function take(files, folders = 0) {
    if (isBusy || !files.length) return;
    const reason = reasonAgainst(files, folders);
    seen.hidden = true;
    if (reason) {
      chosen = null;
      $("#uploads").replaceChildren();
      uploadLine(files[0].name).refused(reason);
      return;
    }
    [chosen] = files;
    await preview();
  }

  async function preview() {
    seen.hidden = true;
    const told = await sent(true);
    if (!told) return;
    sampled = told.samples;
    show(`What is in ${chosen.name}`, ...offered(told));
  }

  function offered(told) {
    const total = Object.values(told.found).reduce((all, one) => all + one, 0);
    const button = element("button", { type: "button", class: "primary" }, `Import ${counted(total, "record")}`);
    button.disabled = !total;
    button.addEventListener("click", () => store(button));
    const lead = total ? `${counted(total, "record")} can be imported, counting those that are here already.` : "There is nothing in it that can be imported.";
    return [element("p", {}, lead), ...notes(told), foundTable(told.found), ...samples(told.samples, false), ...findings(told), element("div", { class: "row end" }, button)];
  }

  async function store(button) {
    button.disabled = true;
    button.setAttribute("aria-busy", "true");
    const told = await sent(false);
    button.removeAttribute("aria-busy");
    button.disabled = false;
    if (told) show(`Imported from ${chosen.name}`, ...stored(told));
  }

  // --- showing -----------------------------------------------------------------------------------------------------
  function show(title, ...parts) {
    const heading = element("h2", { id: "seen-title", tabindex: "-1", dir: "auto" }, title);
    seen.replaceChildren(heading, ...parts);
    seen.hidden = false;
    heading.focus();
  }

  function stored(told) {
    const left = sum(leftOut(told));
    const figures = element("p", { class: "facts", id: "counts" },
      element("span", { class: "status added" }, `${told.records.toLocaleString("en")} new`),
      element("span", { class: "status" }, `${told.skipped.toLocaleString("en")} here already`),
      element("span", { class: left ? "status warn" : "status" }, `${left.toLocaleString("en")} left out`));
    const next = element("div", { class: "row end" }, element("a", { class: "button", href: "/console/search" }, "Search the memories"));
    if (form.dataset.mayReview) next.append(element("a", { class: "button primary", href: "/console/review" }, "Review what is new"));
    return [figures, ...notes(told), ...samples(told.samples.length ? told.samples : sampled, true), ...findings(told), next];
  }

  const notes = (told) => told.notes.map((note) => element("p", { class: "muted" }, note));

  function table(label, heads, rows) {
    const head = element("tr", {}, ...heads.map((one, place) => element("th", place === heads.length - 1 && one === "Number" ? { scope: "col", class: "figure" } : { scope: "col" }, one)));
    const lines = rows.map((row) => element("tr", {}, ...row.map((cell) => element("td", typeof cell === "number" ? { class: "figure" } : { dir: "auto" }, typeof cell === "number" ? cell.toLocaleString("en") : cell))));
    return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, element("table", {}, element("thead", {}, head), element("tbody", {}, ...lines)));
  }

  const foundTable = (found) => table("Records in the file", ["Records", "Number"], Object.entries(found).map(([what, count]) => [worded(what), count]));

  function samples(some, isStored) {
    if (!some.length) return [];
    const lines = some.map((one) => {
      const page = isStored ? pages[one.what.split(" ")[0]] : undefined;
      const text = page ? element("a", { href: `/console/${page}/${encodeURIComponent(one.id)}`, dir: "auto" }, one.text) : element("span", { dir: "auto" }, one.text);
      return element("li", {}, element("span", { class: "kind" }, worded(one.what)), " ", text);
    });
    return [element("h3", {}, isStored ? "Some of it" : "Samples"), element("ul", { class: "links samples" }, ...lines)];
  }

  // Without a field it is a whole part of the source that was left out; with one, only that field has no place here.
  const leftOut = (told) => [...told.unmapped.filter((one) => !one.field), ...told.left_out.map((one) => ({ what: one.table, why: one.why, count: one.count, example: one.id ?? "" }))];

  function findings(told) {
    const left = leftOut(told), elsewhere = told.unmapped.filter((one) => one.field), parts = [];
    if (left.length) parts.push(element("h3", {}, "Left out"), table("Left out", ["What", "Why", "Example", "Number"], left.map((one) => [worded(one.what), one.why, one.example, one.count ?? "unknown"])));
    if (elsewhere.length) parts.push(folded(`${counted(elsewhere.length, "field")} without a place of ${elsewhere.length === 1 ? "its" : "their"} own`, table("Fields without a place", ["Field", "Why", "Number"], elsewhere.map((one) => [`${one.what}: ${one.field}`, one.why, one.count]))));
    if (told.masked?.length) parts.push(folded(`${counted(sum(told.masked), "secret")} masked`, table("Masked secrets", ["Where", "What", "Number"], told.masked.map((one) => [one.field, one.kind, one.count]))));
    return parts;
  }
  const folded = (summary, inside) => element("details", {}, element("summary", {}, summary), inside);

  if (form) {
    takeFiles(form, take);
    $("#source").addEventListener("change", () => { if (chosen && !isBusy) preview(); });
  }
})();
