// What deletes for good is shown first and confirmed by typing; forms that store something; certificates.
(() => {
  "use strict";
  const { $, ask, attempt, once, reload } = window.recollect;
  const dialog = $("#preview");
  let waiting = null;

  // The fields of a form: `name[]` is a list, and `=type` with `=id` are one field named by the first.
  function fieldsOf(form) {
    const body = {}, given = new FormData(form), numbers = (form.dataset.numbers ?? "").split(" ");
    for (const [name, value] of given) {
      if (!value || name.startsWith("=")) continue;
      if (name.endsWith("[]")) (body[name.slice(0, -2)] ??= []).push(value);
      else body[name] = numbers.includes(name) ? Number(value) : value;
    }
    if (given.get("=type")) body[given.get("=type")] = given.get("=id");
    return body;
  }

  // A reply as terms and values: what is empty is left out, what is nested is written as one line.
  function* told(reply) {
    for (const [name, value] of Object.entries(reply)) {
      if (value === null || value === "" || value === false || name === "dry_run") continue;
      if (typeof value === "object" && !Object.keys(value).length) continue;
      yield [name.replaceAll("_", " "), said(value)];
    }
  }

  function said(value) {
    if (Array.isArray(value)) return value.map(said).join("; ");
    if (typeof value !== "object" || value === null) return String(value);
    return Object.entries(value).filter(([, inside]) => inside !== null && inside !== "" && typeof inside !== "object").map(([name, inside]) => `${name.replaceAll("_", " ")}: ${inside}`).join(", ");
  }

  async function preview(form, button) {
    const body = fieldsOf(form), isRead = form.dataset.previewMethod === "GET";
    const reply = await once(button, () => ask(isRead ? "GET" : "POST", form.dataset.previewPath, isRead ? undefined : { ...body, dry_run: true }));
    if (!reply) return;
    $("#preview-title").textContent = form.dataset.title;
    $("#preview-word").textContent = form.dataset.typed;
    $("#preview-typed").value = "";
    $("#preview-yes").disabled = true;
    $("#preview-typed").disabled = Boolean(reply.refused);
    $("#preview-what").replaceChildren(...[...told(reply)].flatMap(([name, value]) => {
      const term = document.createElement("dt"), text = document.createElement("dd");
      [term.textContent, text.textContent] = [name, value];
      return [term, text];
    }));
    waiting = { form, body };
    dialog.showModal();
    if (!reply.refused) $("#preview-typed").focus();
  }

  $("#preview-typed")?.addEventListener("input", ({ target }) => { $("#preview-yes").disabled = target.value.trim() !== waiting?.form.dataset.typed; });
  $("[data-apply]")?.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!waiting || $("#preview-yes").disabled) return;
    const { form, body } = waiting;
    await once($("#preview-yes"), async () => { await ask("POST", form.dataset.path, body); waiting = null; dialog.close(); reload(form.dataset.done, location.pathname); });
  });

  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (form.dataset.previewPath) { event.preventDefault(); await preview(form, event.submitter); }
    if (form.dataset.send) {
      event.preventDefault();
      await once(event.submitter, async () => { await ask("POST", form.dataset.send, fieldsOf(form)); reload(form.dataset.done); });
    }
  });

  document.addEventListener("click", async ({ target }) => {
    const button = target.closest("[data-verify]");
    if (!button) return;
    const place = document.querySelector(`[data-verdict-of="${CSS.escape(button.dataset.verify)}"]`);
    const found = await attempt(() => ask("POST", "/v1/privacy/verify", { id: button.dataset.verify }));
    if (found) place.textContent = `${found.sound ? "✓ It is genuine" : "✗ It is not"}: ${found.checks.map((one) => one.says).join("; ")}`;
  });
})();
