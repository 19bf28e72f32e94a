// Before anything is drawn: light or dark as chosen here, else as the system says.
(() => {
  "use strict";
  let chosen = null;
  try { chosen = localStorage.getItem("recollect-theme"); } catch { /* storage may be closed to pages */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
