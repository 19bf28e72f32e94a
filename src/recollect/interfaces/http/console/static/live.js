// A page that keeps itself up to date: it asks again every few seconds while somebody looks, and says when it cannot.
(() => {
  "use strict";
  const { $, all, reached, signedOut } = window.recollect;
  const place = () => $("[data-live]"), state = $("#live-state"), button = $("#live-button");
  const pause = Number(place().dataset.live) * 1000;
  let etag = "", timer, isPaused = false, failures = 0;

  // What somebody opened or pointed at stays so in what replaces it.
  function replaced(fresh) {
    const old = place(), keyOf = (element) => element.closest("[data-key]")?.dataset.key;
    const open = new Set(all("details[open]", old).map(keyOf)), at = keyOf($(".at", old) ?? old);
    const focused = old.contains(document.activeElement) ? keyOf(document.activeElement) : undefined;
    for (const item of all("[data-key]", fresh)) {
      if (open.has(item.dataset.key)) all("details", item).forEach((one) => { one.open = true; });
      if (at && item.dataset.key === at) item.classList.add("at");
    }
    old.replaceWith(fresh);
    if (focused) (all("[data-key]", fresh).find((item) => item.dataset.key === focused)?.querySelector("a, button, summary"))?.focus({ preventScroll: true });
  }

  async function look() {
    const answer = await reached(location.href, { headers: { "x-recollect-poll": "1", "x-recollect-fragment": "1", ...(etag && { "if-none-match": etag }) }, credentials: "same-origin", cache: "no-store" });
    if (answer.status === 401) { stop(); signedOut(); return; }
    if (answer.status === 304) return;
    if (!answer.ok) throw new Error(String(answer.status));
    etag = answer.headers.get("etag") ?? "";
    const fresh = $("[data-live]", new DOMParser().parseFromString(await answer.text(), "text/html"));
    if (fresh && !isPaused && !document.querySelector("dialog[open]") && fresh.innerHTML !== place().innerHTML) replaced(fresh);
  }

  async function turn() {
    if (!document.hidden && !document.querySelector("dialog[open]")) {
      try { await look(); failures = 0; } catch { failures += 1; }
      if (!isPaused) state.textContent = failures ? "The service cannot be reached; trying again" : "Live";
    }
    if (!isPaused) timer = setTimeout(turn, pause * Math.min(2 ** failures, 16));
  }

  function stop() {
    isPaused = true;
    clearTimeout(timer);
    state.textContent = "Paused";
    button.textContent = "Resume updates";
  }
  button.addEventListener("click", () => {
    if (!isPaused) { stop(); return; }
    isPaused = false;
    button.textContent = "Pause updates";
    turn();
  });
  document.addEventListener("visibilitychange", () => { if (!document.hidden && !isPaused) { clearTimeout(timer); turn(); } });
  timer = setTimeout(turn, pause);
})();
