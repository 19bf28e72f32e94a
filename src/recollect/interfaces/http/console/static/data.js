// The pages about data: files are uploaded with their progress, questions are asked, charts are drawn.
(() => {
  "use strict";
  const { $, all, ask, attempt, fragment, once, reached, reload, proof, signedOut } = window.recollect;

  // --- sources ---------------------------------------------------------------------------------------------------
  const form = $("[data-upload]");
  const words = { working: "Reading the rows and looking at the columns …", cut: "The service cannot be reached; nothing was added" };

  async function upload(file) {
    const shown = window.recollect.uploadLine(file.name);
    const query = new URLSearchParams({ path: file.name });
    if (form.dataset.versionOf) query.set("version_of", form.dataset.versionOf);
    try {
      const made = await window.recollect.sendFile(`/v1/sources?${query}`, file, shown, words);
      shown.bar.value = 1;
      const rows = made.tables.reduce((sum, table) => sum + table.rows, 0).toLocaleString("en");
      shown.said.textContent = made.is_new ? `${rows} rows in ${made.tables.length === 1 ? "1 table" : `${made.tables.length} tables`}` : `Nothing new: ${made.notes[0] ?? "the same content is here already"}`;
      return made;
    } catch (problem) {
      shown.refused(problem.message);
      return null;
    }
  }

  // One after the other, so that each has the whole line; the page shows what came of them when all went well.
  async function uploadAll(files) {
    const made = [];
    for (const file of files) { const one = await upload(file); if (one) made.push(one); }
    if (!files.length || made.length < files.length) return;
    const added = made.filter((one) => one.is_new).length;
    if (!added) return;
    const told = added === 1 ? `Added ${made.find((one) => one.is_new).name.slice(0, 60)}` : `Added ${added} sources`;
    reload(told, made.length === 1 ? `/console/sources/${encodeURIComponent(made[0].id)}` : undefined);
  }

  if (form) window.recollect.takeFiles(form, uploadAll);

  function filterColumns(field) {
    const wanted = field.value.trim().toLowerCase();
    for (const row of all("[data-column]", field.closest("section"))) row.hidden = !row.dataset.column.includes(wanted);
  }

  document.addEventListener("input", ({ target }) => { if ("filterColumns" in target.dataset) filterColumns(target); });
  // Typed before this script was there, or kept by the browser when the page was loaded again.
  for (const field of all("[data-filter-columns]")) if (field.value) filterColumns(field);

  document.addEventListener("click", ({ target }) => {
    const opener = target.closest("[data-open]");
    if (opener) $(`#${CSS.escape(opener.dataset.open)}`).showModal();
  });

  $("[data-revise-source]")?.addEventListener("submit", async (event) => {
    event.preventDefault();
    const { target, submitter } = event;
    await once(submitter, async () => {
      await ask("PATCH", `/v1/sources/${encodeURIComponent(target.dataset.reviseSource)}`, Object.fromEntries(new FormData(target)));
      reload("Saved");
    });
  });

  // --- connections -----------------------------------------------------------------------------------------------
  $("[data-add-connection]")?.addEventListener("submit", async (event) => {
    event.preventDefault();
    const { target, submitter } = event, refused = $("[data-refused]", target);
    const body = Object.fromEntries([...new FormData(target)].map(([name, value]) => [name, value.trim()]).filter(([, value]) => value));
    refused.hidden = true;
    await once(submitter, async () => {
      try {
        await ask("POST", "/v1/connections", body);
        reload(`Connected to ${body.name}`);
      } catch (problem) {
        refused.textContent = problem.message;
        refused.hidden = false;
      }
    });
  });

  // --- asking ----------------------------------------------------------------------------------------------------
  const place = $("#answer");
  const run = () => $("[data-run]", place)?.dataset;

  function refuse(message) {
    const said = document.createElement("div");
    said.className = "trouble";
    said.setAttribute("role", "alert");
    const text = document.createElement("p");
    text.textContent = message;
    said.append(text);
    place.replaceChildren(said);
  }

  // What was asked is kept as a run; the server draws it, and the address names it.
  async function answered(button, path, body) {
    await once(button, async () => {
      place.setAttribute("aria-busy", "true");
      const job = [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
      const working = $("[data-working]");
      working.dataset.working = job;
      const slow = setTimeout(() => { working.hidden = false; }, 1000);
      try {
        const told = await ask("POST", path, { ...body, job });
        if (!told.run) { refuse(`${told.declined ?? "There is no answer."} Say it in other words, or write SQL.`); return; }
        await show(told.run);
        history.pushState(null, "", `/console/ask?run=${encodeURIComponent(told.run)}`);
        $("#answer-title").focus();
      } catch (problem) {
        refuse(problem.message);
      } finally {
        clearTimeout(slow);
        working.hidden = true;
        place.setAttribute("aria-busy", "false");
      }
    });
  }

  async function show(id, kind) {
    const query = new URLSearchParams({ run: id, ...(kind ? { kind } : {}) });
    const answer = await fragment(`/console/ask/answer?${query}`);
    if (!answer.ok) throw new Error("The answer could not be loaded; reload the page");
    place.innerHTML = await answer.text();
    if ($("#sql")) $("#sql").value = $("pre code", place).textContent;
    redraw(); // its rows are read meanwhile
  }
  addEventListener("popstate", () => { if (place) location.reload(); });

  $("[data-ask]")?.addEventListener("submit", (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    const sources = form.get("source") ? [form.get("source")] : [];
    answered(event.submitter, "/v1/ask", { question: form.get("question"), sources });
  });

  $("[data-working] button")?.addEventListener("click", () => {
    attempt(() => ask("POST", "/v1/queries/cancel", { job: $("[data-working]").dataset.working }));
  });

  const writes = $("[data-sql]");
  writes?.addEventListener("submit", (event) => {
    event.preventDefault();
    const form = new FormData(event.target), answers = $("[data-answers]");
    const question = !answers.hidden && form.get("answers") ? $("q", answers).textContent : "";
    answered(event.submitter, "/v1/queries", { sql: form.get("sql"), question });
  });
  writes?.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); writes.requestSubmit(); }
  });

  place?.addEventListener("submit", (event) => {
    event.preventDefault();
    const { target } = event;
    if ("follow" in target.dataset) answered(event.submitter, "/v1/ask", { question: new FormData(target).get("question"), follows: run().run });
    else if ("changePart" in target.dataset) changePart(target, event.submitter);
  });

  place?.addEventListener("change", ({ target }) => {
    if ("kind" in target.dataset) attempt(() => chooseKind(target));
    else if (target.name === "operator" || target.name === "kind") fitPart();
  });

  place?.addEventListener("click", ({ target }) => {
    const button = target.closest("button");
    if (!button) return;
    const { dataset } = button;
    if (dataset.removePart) changed(button, [{ key: dataset.removePart, action: "remove" }]);
    else if (dataset.choose) answered(button, "/v1/ask", { question: run().question, follows: run().run, choose: Number(dataset.choose) });
    else if (dataset.part) openPart(JSON.parse(dataset.part));
    else if ("addPart" in dataset) openPart(null);
    else if ("editSql" in dataset) editSql();
    else if (dataset.save) save(button);
  });

  // With the operation, the chart is drawn from all rows and kept; without it, from those on the page.
  async function chooseKind(select) {
    const { value, dataset: { kind: path } } = select;
    if (path) await ask("POST", path, { kind: value });
    await show(run().run, path ? undefined : value);
    $("[data-kind]", place).focus();
  }

  // Another statement for the same question: judged right, it is what questions like it are answered from.
  function editSql() {
    $("[data-answers] q").textContent = run().question;
    $("[data-answers]").hidden = false;
    $("#sql").closest("details").open = true;
    $("#sql").focus();
    $("#sql").scrollIntoView({ block: "center" });
  }

  // A file comes as it is, or inside a reply.
  async function save(button) {
    const { save: path, body, file } = button.dataset;
    await once(button, async () => {
      const headers = { "content-type": "application/json", accept: "application/octet-stream", "x-recollect-csrf": proof() };
      const answer = await reached(path, { method: "POST", headers, body, credentials: "same-origin" });
      if (answer.status === 401) { signedOut(); return; }
      const isReply = (answer.headers.get("content-type") ?? "").startsWith("application/json") && !answer.headers.has("content-disposition");
      const told = isReply ? await answer.json() : null;
      if (!answer.ok) throw new Error([told?.error?.message, told?.error?.remedy].filter(Boolean).join(": "));
      if (told && !told.base64) throw new Error(told.reason || "There is nothing to save");
      const content = told ? new Blob([Uint8Array.from(atob(told.base64), (letter) => letter.charCodeAt(0))]) : await answer.blob();
      const link = document.createElement("a");
      link.href = URL.createObjectURL(content);
      link.download = file;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    });
  }

  // --- parts of a reading ----------------------------------------------------------------------------------------
  const changed = (button, changes) => answered(button, "/v1/ask", { question: run().question, follows: run().run, changes });
  let part = null;

  function openPart(one) {
    part = one;
    const form = $("[data-change-part]");
    form.reset();
    for (const name of ["column", "aggregate", "date_part", "operator", "value", "upper"]) form.elements[name].value = one?.[name] ?? form.elements[name].value;
    form.elements.descending.checked = Boolean(one?.descending);
    $("#part-title").textContent = one ? "Change this part" : "Add a part";
    fitPart();
    $("#part").showModal();
  }

  // Only the fields that this kind of part has.
  function fitPart() {
    const form = $("[data-change-part]");
    const kind = part?.kind ?? form.elements.kind.value;
    const operator = form.elements.operator.value;
    const isRange = ["where", "having"].includes(kind) && ["between", "within"].includes(operator);
    const hasNone = ["where", "having"].includes(kind) && ["null", "not null"].includes(operator);
    for (const field of all("[data-for]", form)) {
      const kinds = field.dataset.for.split(" ");
      field.hidden = kinds[0] === "add" ? part !== null : kinds[0] === "range" ? !isRange : !kinds.includes(kind) || (hasNone && $("#part-value", field) !== null);
    }
  }

  function changePart(form, button) {
    const kind = part?.kind ?? form.elements.kind.value;
    const change = { key: part?.key ?? kind, action: part ? "replace" : "add" };
    for (const name of ["column", "aggregate", "date_part", "operator", "value", "upper"]) {
      const field = form.elements[name];
      if (field.closest("[data-for]").hidden) continue;
      if (field.value !== String(part?.[name] ?? "")) change[name] = kind === "limit" ? Number(field.value) : field.value;
    }
    if (kind === "order") change.descending = form.elements.descending.checked;
    $("#part").close();
    changed(button, [change]);
  }

  // --- charts ----------------------------------------------------------------------------------------------------
  let loading;
  function vega() {
    loading ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = `/console/vega.js?v=${encodeURIComponent(place.dataset.vega)}`;
      script.addEventListener("load", () => resolve(window.vegaEmbed));
      script.addEventListener("error", () => reject(new Error("The chart could not be drawn; reload the page")));
      document.head.append(script);
    });
    return loading;
  }

  const isDark = () => (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

  // The question stands above it and the page has its own ground, so the chart needs neither; it takes the width there is.
  async function draw() {
    const figure = $(".vega", place);
    if (!figure || !place.dataset.vega) return;
    const { spec, dark } = JSON.parse(figure.dataset.chart);
    const drawn = $(".drawn", figure);
    const room = drawn.clientWidth;
    const kind = spec.usermeta?.recollect?.kind, isGrid = kind === "heatmap";
    const { axis, ...looks } = isDark() ? dark : spec.config;
    const config = { ...looks, axis: { ...axis, labelLimit: Math.min(axis.labelLimit, room * 0.4) }, background: "transparent", padding: 4 };
    const width = kind === "bar" ? Math.min(room - 40, spec.width + 160) : ["pie", "number"].includes(kind) ? Math.min(room - 8, spec.width + 160) : room - 8;
    const sized = isGrid ? {} : { width, autosize: { type: "fit", contains: "padding" } };
    const { title, ...rest } = spec;
    const embed = await vega();
    await embed(drawn, { ...rest, ...sized, config }, { actions: false, ast: true, renderer: "svg", defaultStyle: false, tooltip: { disableDefaultStyle: true } });
  }
  const redraw = () => attempt(draw);
  if (place?.dataset.vega) {
    vega().catch(() => {}); // said when something is to be drawn
    redraw();
    new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    let resizing;
    addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(redraw, 200); });
  }
})();
