// Files that are sent to the API: chosen or dropped, with the progress of each.
(() => {
  "use strict";
  const { $, proof, provenAgain, signedOut } = window.recollect;

  // A line of the page for one file: its name, a bar, and what is going on.
  function uploadLine(name) {
    const line = document.createElement("li"), title = document.createElement("bdi");
    title.textContent = name;
    const bar = document.createElement("progress");
    [bar.max, bar.value] = [1, 0];
    bar.setAttribute("aria-label", `Upload of ${name}`);
    const said = document.createElement("span");
    said.className = "muted";
    line.append(title, bar, said);
    $("#uploads").append(line);
    const refused = (text) => {
      line.className = "bad";
      bar.remove();
      said.textContent = text;
      said.setAttribute("role", "alert");
    };
    return { line, bar, said, refused };
  }

  // XMLHttpRequest, since fetch does not tell how much was sent. `words` are told while it works and if it is cut off.
  function sendFile(path, file, { bar, said }, words, isAgain = false) {
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      request.open("POST", path);
      request.setRequestHeader("content-type", "application/octet-stream");
      request.setRequestHeader("x-recollect-csrf", proof());
      request.responseType = "json";
      request.upload.addEventListener("progress", (event) => {
        if (!event.lengthComputable) return;
        bar.value = event.loaded / event.total;
        said.textContent = `${Math.round(100 * bar.value)}% sent`;
      });
      request.upload.addEventListener("load", () => { bar.removeAttribute("value"); said.textContent = words.working; });
      request.addEventListener("error", () => reject(new Error(words.cut)));
      request.addEventListener("load", async () => {
        if (request.status === 401) { signedOut(); reject(new Error("You are signed out")); return; }
        try {
          if (request.status === 403 && !isAgain && (await provenAgain())) { resolve(sendFile(path, file, { bar, said }, words, true)); return; }
        } catch { /* it is told as it was refused */ }
        const told = request.response ?? {};
        if (request.status >= 400) reject(new Error([told.error?.message, told.error?.remedy].filter(Boolean).join(": ") || "It was refused"));
        else resolve(told);
      });
      request.send(file);
    });
  }

  // Files that are chosen in a form, or dropped on it.
  function takeFiles(form, take) {
    const input = $('input[type="file"]', form);
    input.addEventListener("change", () => { const files = [...input.files]; input.value = ""; take(files); });
    form.addEventListener("submit", (event) => event.preventDefault());
    if (!form.classList.contains("drop")) return;
    for (const type of ["dragenter", "dragover"]) form.addEventListener(type, (event) => { event.preventDefault(); form.classList.add("over"); });
    for (const type of ["dragleave", "drop"]) form.addEventListener(type, () => form.classList.remove("over"));
    form.addEventListener("drop", (event) => {
      event.preventDefault();
      const folders = [...event.dataTransfer.items].filter((one) => one.webkitGetAsEntry?.()?.isDirectory).length;
      take([...event.dataTransfer.files], folders);
    });
  }

  Object.assign(window.recollect, { uploadLine, sendFile, takeFiles });
})();
