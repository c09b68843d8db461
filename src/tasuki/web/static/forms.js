// Forms: a page stays while one is sent, its button says what it does, and no word that somebody typed is lost.
"use strict";
(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const { body } = document;
  if (body.dataset.version === undefined) return; // nobody is signed in
  const dialog = $("#form");
  const main = $("#main");
  const FIELDS = "textarea, input[type=text], input:not([type])";
  const NOT_SENT = "Not sent: the server does not answer. What you typed stays here. Send it again once this page is live.";
  const AWAY = "The server does not answer: it is not known whether that was sent. Look before you send it again.";
  const SIGNED_OUT = "You are signed out: nothing was sent. Sign in in another tab, then send it again.";

  // -- what a form says -----------------------------------------------------------------------
  const say = (form, text) => {
    const before = $("[data-said]", form);
    if (before) before.remove();
    if (!text) return;
    const note = document.createElement("p");
    note.className = "box attn";
    note.dataset.said = "";
    note.setAttribute("role", "alert");
    note.textContent = text;
    form.prepend(note);
  };
  document.addEventListener("tasuki:say", (event) => say(event.detail.form, event.detail.text));
  const warn = (text) => {
    for (const same of $$("#toasts .toast")) if ($("span", same) && $("span", same).textContent === text) same.remove();
    const toast = document.createElement("div");
    toast.className = "toast";
    toast.setAttribute("role", "alert");
    toast.innerHTML = '<svg class="i fail" aria-hidden="true"><use href="#fail"/></svg><span></span><button type="button" data-dismiss aria-label="Dismiss">×</button>';
    $("span", toast).textContent = text;
    $("#toasts").append(toast);
  };
  const hasRoom = (form) => dialog.contains(form) || Boolean($(FIELDS, form)); // else a toast says it
  const tell = (form, text) => { if (hasRoom(form)) say(form, text); else warn(text); };

  // -- signed out: what is typed stays, through a sign-in, too ----------------------------------
  const WORDS = "tasuki-words"; // of sessionStorage: what was typed on a page when its session ended
  const keepWords = () => {
    const forms = $$("form[method=post]").map((form) => ({
      action: form.getAttribute("action"), opened: dialog.contains(form) ? dialog.dataset.address : "",
      fields: $$(FIELDS, form).filter((field) => field.name && field.value !== field.defaultValue).map((field) => [field.name, field.value]),
    })).filter((form) => form.fields.length);
    if (forms.length) sessionStorage.setItem(WORDS, JSON.stringify({ path: window.location.pathname, forms }));
    fetch(window.location.pathname, { headers: { "Tasuki-Page": "shown" } }).catch(() => {}); // who signs in comes back here
  };
  const restoreWords = () => {
    const kept = JSON.parse(sessionStorage.getItem(WORDS) || "{}");
    if (kept.path !== window.location.pathname) return;
    sessionStorage.removeItem(WORDS);
    for (const form of kept.forms) {
      if (!form.opened) { fill(form); continue; }
      document.addEventListener("htmx:afterSwap", () => fill(form), { once: true });
      document.dispatchEvent(new CustomEvent("tasuki:form", { detail: form.opened }));
    }
  };
  const fill = ({ action, fields }) => {
    const form = $$("form").find((one) => one.getAttribute("action") === action);
    if (!form) return;
    for (const [name, value] of fields) {
      const field = $$(FIELDS, form).find((one) => one.name === name);
      if (field) { field.value = value; field.dataset.touched = ""; }
    }
  };
  const noteSignedOut = (form) => {
    keepWords();
    if (!hasRoom(form)) { warn(SIGNED_OUT); return; }
    say(form, " ");
    const note = $("[data-said]", form);
    note.dataset.signedOut = "";
    note.innerHTML = '<b>Signed out</b>, and nothing was sent. <a target="_blank">Sign in in another tab</a>, then send it again: what you typed stays here.';
    $("a", note).href = window.location.pathname;
  };
  const forgetSignedOut = () => { for (const note of $$("[data-signed-out]")) note.remove(); sessionStorage.removeItem(WORDS); };
  document.addEventListener("htmx:beforeOnLoad", (event) => {
    if (event.detail.xhr.status !== 401) forgetSignedOut();
    else if (event.detail.elt.matches("form")) { event.preventDefault(); noteSignedOut(event.detail.elt); } // else the page is loaded again
  });
  document.addEventListener("tasuki:connected", () => { if ($("[data-signed-out]")) forgetSignedOut(); });
  document.addEventListener("tasuki:signed-out", () => { // also of what was kept back while nothing came
    keepWords();
    for (const note of $$("[data-said]")) if (note.textContent === NOT_SENT) noteSignedOut(note.closest("form"));
  });
  document.addEventListener("htmx:sendError", (event) => { if (!event.detail.elt.matches("[hx-trigger^=every]")) warn(event.detail.requestConfig.verb === "get" ? "The server does not answer. Try it again." : AWAY); });

  // -- the button of a form that is sent says what happens ---------------------------------------
  const DOING = { Accept: "Accepting", Add: "Adding", Adopt: "Adopting", Cancel: "Cancelling", Clear: "Clearing", Create: "Creating", Draft: "Drafting", Fork: "Forking", Give: "Giving", Hand: "Handing", Mark: "Marking", Recover: "Recovering", Remove: "Removing", Retire: "Retiring", Retry: "Retrying", Save: "Saving", Send: "Sending", Show: "Showing", Start: "Starting", Stop: "Stopping", Undo: "Undoing" };
  const begin = (form, button) => {
    sending.add(form);
    say(form, "");
    if (!button || button.dataset.busy !== undefined || button.closest(".keys, .answers")) return;
    const before = button.innerHTML;
    const word = button.textContent.trim();
    const verb = word.split(" ")[0];
    button.dataset.busy = "";
    button.textContent = `${DOING[verb] ? word.replace(verb, DOING[verb]) : word.replace(/ …$/, "")} …`;
    ends.set(form, () => { delete button.dataset.busy; button.innerHTML = before; });
  };
  const end = (form) => { sending.delete(form); if (ends.has(form)) ends.get(form)(); ends.delete(form); };
  const sending = new WeakSet();
  const ends = new WeakMap(); // how a button gets its own words back
  document.addEventListener("htmx:beforeRequest", (event) => { if (event.detail.elt.matches("form")) begin(event.detail.elt, event.detail.requestConfig.triggeringEvent?.submitter); });
  document.addEventListener("htmx:afterRequest", (event) => { if (event.detail.elt.matches("form") && !event.detail.xhr.getResponseHeader("HX-Redirect")) end(event.detail.elt); });

  // -- a form is sent, and what comes back is shown ------------------------------------------------
  document.addEventListener("submit", (event) => { // also those of htmx
    if (body.dataset.away === undefined && !sending.has(event.target)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    if (!sending.has(event.target)) tell(event.target, NOT_SENT);
  }, true);
  const post = (form, button) => fetch(button?.getAttribute("formaction") || form.getAttribute("action"), { method: "POST", body: new URLSearchParams(new FormData(form, button)), headers: { "HX-Request": "true" } }).catch(() => null);
  const read = (html) => new DOMParser().parseFromString(html, "text/html");
  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (event.defaultPrevented || form.method !== "post" || form.matches("[data-quiet], [data-plain], [hx-post]")) return;
    event.preventDefault();
    const answer = post(form, event.submitter);
    begin(form, event.submitter);
    show(form, await answer);
  });
  const show = async (form, answer) => {
    const address = answer && answer.headers.get("HX-Redirect");
    if (address) { leave(form, new URL(address, window.location.href)); return; }
    const text = answer ? await answer.text().catch(() => "") : "";
    end(form);
    if (!answer) tell(form, AWAY);
    else if (answer.status === 401) noteSignedOut(form);
    else if (answer.ok || $$("form", read(text)).some((one) => one.getAttribute("action") === form.getAttribute("action"))) replace(form, text);
    else tell(form, read(text).body.textContent.trim());
  };
  const leave = (form, to) => {
    const isHere = to.pathname + to.search === window.location.pathname + window.location.search;
    form.reset(); // a browser fills a page that it loads again with what was typed
    if (!isHere) { window.location.assign(to); return; }
    window.history.replaceState(null, "", to);
    window.location.reload();
  };
  const replace = (form, text) => {
    const place = dialog.contains(form) ? $("#form-body") : main;
    place.innerHTML = text;
    htmx.process(place);
    const alert = $("[role=alert]", place);
    if (alert) alert.scrollIntoView({ block: "nearest" });
  };

  // -- forms that leave the page as it is --------------------------------------------------------
  const quiet = new Set(); // by the id of what is around the form: a morph leaves no mark on it
  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!form.matches("form[data-quiet]")) return;
    event.preventDefault();
    const place = form.parentElement;
    if (quiet.has(place.id)) return;
    const note = $("[data-note]", place);
    const write = (text) => { delete note.dataset.refused; note.hidden = !text; if (note.textContent !== text) note.textContent = text; };
    const refuse = (text) => { // under a dialog nobody could read a toast
      if (!dialog.open || !dialog.contains(note)) { warn(text); return; }
      write(text);
      note.dataset.refused = place.id;
    };
    quiet.add(place.id);
    write("Sending …");
    const answer = await post(form, event.submitter);
    quiet.delete(place.id);
    write("");
    if (answer && answer.status === 401) { noteSignedOut(form); return; }
    if (answer && answer.ok) {
      form.reset();
      if (dialog.contains(form) && !form.closest("[data-renewed]")) dialog.close();
      const done = await answer.text().catch(() => "");
      if (done) document.dispatchEvent(new CustomEvent("tasuki:done", { detail: done }));
    } else if (place.id === "notes" && answer && answer.status === 410) { document.dispatchEvent(new CustomEvent("tasuki:refused")); }
    if (!answer || !answer.ok) refuse(answer ? read(await answer.text()).body.textContent.trim() : AWAY);
    document.dispatchEvent(new CustomEvent("tasuki:refresh"));
  });

  restoreWords();
})();
