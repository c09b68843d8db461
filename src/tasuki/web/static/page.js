// What every page does beyond htmx: times count on, forms open over the page, entries are shown next to a brief.
"use strict";
(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

  // -- times ---------------------------------------------------------------------------
  const UNITS = [["d", 86400], ["h", 3600], ["min", 60]];
  const span = (seconds) => {
    for (const [unit, size] of UNITS) if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
    return `${Math.max(0, Math.floor(seconds))} s`;
  };
  const put = (element, text) => { if (element && element.textContent !== text) element.textContent = text; };
  const tick = () => {
    if (document.hidden) return;
    const now = Date.now();
    for (const time of $$("time[data-ago]")) put(time, span((now - Date.parse(time.dateTime)) / 1000) + time.dataset.ago);
    put($("#live-clock"), new Date(now).toTimeString().slice(0, 8));
  };
  document.addEventListener("tasuki:shown", tick);
  document.addEventListener("visibilitychange", tick);

  // -- forms over the page -------------------------------------------------------------
  const dialog = $("#form");
  document.addEventListener("htmx:afterSwap", (event) => {
    if (dialog && event.detail.target && event.detail.target.id === "form-body" && !dialog.open) {
      dialog.showModal();
      const first = $("[autofocus], input:not([type=hidden]), textarea", dialog);
      if (first) first.focus();
    }
  });
  const openForm = (address) => { htmx.ajax("GET", address, "#form-body").catch(() => {}); }; // what fails is told below
  document.addEventListener("tasuki:form", (event) => { opener = ""; openForm(event.detail); });
  document.addEventListener("click", (event) => { // by delegation: a link that is morphed is another one
    const link = event.target.closest("a[data-form]");
    if (!link || event.defaultPrevented || event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
    event.preventDefault();
    opener = link.id;
    openForm(link.getAttribute("href"));
  });
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("form[data-form]")) return;
    event.preventDefault();
    const query = new URLSearchParams(new FormData(event.target, event.submitter));
    opener = event.submitter ? event.submitter.id : "";
    openForm(`${event.target.getAttribute("action")}?${query}`);
  });
  let opener = ""; // the link itself may be another one when the form is closed
  if (dialog) dialog.addEventListener("close", () => { const link = opener && document.getElementById(opener); if (link) link.focus(); });
  const isTyped = () => $$("input:not([type=hidden]), textarea", dialog).some((field) => field.value !== field.defaultValue) || Boolean($("[data-touched]", dialog));
  let pressedBeside = false; // a selection that is dragged out of the form ends beside it, too
  document.addEventListener("pointerdown", (event) => { pressedBeside = event.target === dialog; });
  document.addEventListener("click", (event) => {
    const close = event.target.closest("[data-close]");
    if (close && dialog && dialog.open && dialog.contains(close)) { event.preventDefault(); dialog.close(); }
    if (event.target === dialog && pressedBeside && !isTyped()) dialog.close();
    const shut = event.target.closest(".toast [data-dismiss]");
    if (shut) shut.closest(".toast").remove();
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches("#filter select")) event.target.form.requestSubmit();
  });
  document.addEventListener("formdata", (event) => { // a short address
    if (event.target.id !== "filter") return;
    for (const [name, value] of [...event.formData]) if (!value) event.formData.delete(name);
  });
  document.addEventListener("pointerdown", (event) => { for (const open of $$("details.pop[open]")) if (!open.contains(event.target)) open.open = false; });
  document.addEventListener("keydown", (event) => {
    const open = event.key === "Escape" && event.target.closest("details.pop[open]");
    if (!open) return;
    open.open = false;
    $("summary", open).focus();
    event.stopImmediatePropagation();
  });

  // -- signed out: what is typed stays, and is sent once somebody has signed in ---------------
  const SIGN_IN = '<b>Signed out</b>, and nothing was sent. <a href="/" target="_blank">Sign in in another tab</a>, then send it again: what you typed stays here.';
  const noteSignedOut = () => {
    if ($("#signed-out", dialog)) return;
    const note = document.createElement("p");
    note.id = "signed-out";
    note.className = "box attn";
    note.setAttribute("role", "alert");
    note.innerHTML = SIGN_IN;
    $("form", dialog).prepend(note);
  };
  const forgetSignedOut = () => { for (const note of $$("#signed-out")) note.remove(); };
  document.addEventListener("htmx:beforeOnLoad", (event) => {
    if (event.detail.xhr.status !== 401) forgetSignedOut();
    else if (dialog && dialog.open && $("form", dialog)) { event.preventDefault(); noteSignedOut(); } // else the page is loaded again
  });
  document.addEventListener("tasuki:connected", forgetSignedOut);

  const AWAY = "The server does not answer: it is not known whether that was sent. Look before you send it again.";
  const SIGNED_OUT = "You are signed out: nothing was sent. Sign in in another tab, then send it again.";
  document.addEventListener("htmx:sendError", (event) => { warn(event.detail.requestConfig.verb === "get" ? "The server does not answer. Try it again." : AWAY); });
  const warn = (text) => {
    for (const same of $$("#toasts .toast")) if ($("span", same) && $("span", same).textContent === text) same.remove();
    const toast = document.createElement("div");
    toast.className = "toast";
    toast.setAttribute("role", "alert");
    toast.innerHTML = '<svg class="i fail" aria-hidden="true"><use href="#fail"/></svg><span></span><button type="button" data-dismiss aria-label="Dismiss">×</button>';
    $("span", toast).textContent = text;
    $("#toasts").append(toast);
  };

  // -- forms that leave the page as it is --------------------------------------------------
  const sending = new Set(); // by the id of what is around the form: a morph leaves no mark on it
  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!form.matches("form[data-quiet]")) return;
    event.preventDefault();
    const place = form.parentElement;
    if (sending.has(place.id)) return;
    const fields = new URLSearchParams(new FormData(form, event.submitter));
    const note = $("[data-note]", place);
    const say = (text) => { delete note.dataset.refused; note.hidden = !text; put(note, text); };
    const refuse = (text) => { // under a dialog nobody could read a toast
      if (!dialog || !dialog.open || !dialog.contains(note)) { warn(text); return; }
      say(text);
      note.dataset.refused = place.id;
    };
    sending.add(place.id);
    say("Sending …");
    const answer = await fetch(form.getAttribute("action"), { method: "POST", body: fields, headers: { "HX-Request": "true" } }).catch(() => null);
    sending.delete(place.id);
    say("");
    if (answer && answer.status === 401) { if (dialog && dialog.contains(form)) noteSignedOut(); else warn(SIGNED_OUT); return; }
    if (answer && answer.ok) {
      form.reset();
      if (dialog && dialog.contains(form) && !form.closest("[data-renewed]")) dialog.close();
      const said = await answer.text().catch(() => "");
      if (said) document.dispatchEvent(new CustomEvent("tasuki:done", { detail: said }));
    } else if (place.id === "notes" && answer && answer.status === 410) { document.dispatchEvent(new CustomEvent("tasuki:refused")); }
    if (!answer || !answer.ok) refuse(answer ? new DOMParser().parseFromString(await answer.text(), "text/html").body.textContent.trim() : AWAY);
    document.dispatchEvent(new CustomEvent("tasuki:refresh"));
  });

  // -- entries next to a brief ----------------------------------------------------------
  document.addEventListener("click", (event) => {
    const link = event.target.closest(".brief a.ref");
    const place = $("#entry");
    if (!link || !place || event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
    const url = new URL(link.href);
    const entry = url.searchParams.get("entry");
    if (!url.pathname.startsWith("/briefs/") || !entry) return;
    event.preventDefault();
    for (const other of $$(".brief a.ref[aria-current]")) other.removeAttribute("aria-current");
    for (const same of $$(".brief a.ref")) if (same.href === link.href) same.setAttribute("aria-current", "true");
    htmx.ajax("GET", `${url.pathname}/entry/${entry}`, { target: "#entry", swap: "outerHTML" });
    window.history.replaceState(null, "", link.href);
  });

  tick();
  window.setInterval(tick, 1000);
})();
