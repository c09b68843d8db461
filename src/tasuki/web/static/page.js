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
  let offset = 0; // ms by which the server's clock is ahead of this one
  const setClock = () => { offset = document.body.dataset.now ? 1000 * document.body.dataset.now - Date.now() : 0; };
  const clock = (at) => at.toTimeString().slice(0, 8);
  const day = (at) => { const [, month, number, year] = at.toDateString().split(" "); return `${Number(number)} ${month}${year === String(new Date(Date.now() + offset).getFullYear()) ? "" : ` ${year}`}`; };
  const isToday = (at) => { const now = new Date(Date.now() + offset); return at.toDateString() === now.toDateString() || (at > now && at - now < 72e6); };
  const FORMS = { // of `data-as`, in the browser's zone
    clock: (at) => (isToday(at) ? clock(at) : FORMS.moment(at)),
    moment: (at) => (isToday(at) ? "" : `${at.getDate()} ${day(at).split(" ")[1]} `) + clock(at).slice(0, 5),
    hour: (at) => clock(at).slice(0, 5),
    day: (at) => (isToday(at) ? "today" : day(at)),
    date: (at) => at.toLocaleDateString("en-GB", { weekday: "long", day: "numeric", month: "long", year: "numeric" }).replace(",", ""),
  };
  const field = (iso) => { const at = new Date(iso); return new Date(at - at.getTimezoneOffset() * 60000).toISOString().slice(0, 16); };
  const tick = () => {
    if (document.hidden) return;
    const now = Date.now() + offset;
    for (const time of $$("time[datetime]")) {
      const at = new Date(time.dateTime);
      if (time.dataset.ago !== undefined) put(time, span((now - at) / 1000) + time.dataset.ago); else if (time.dataset.as) put(time, FORMS[time.dataset.as](at));
      if (time.title && !time.dataset.server) { time.dataset.server = time.title; time.title = `${at.toDateString()}, ${clock(at)}\nOn the server: ${time.title}`; }
    }
    for (const input of $$("[data-value]:not([data-zoned], [data-touched])")) {
      for (const name of ["min", "max", "value"]) if (input.dataset[name]) input[name] = field(input.dataset[name]);
      input.dataset.zoned = "";
      input.title = "";
    }
    placeDays();
    put($("#live-clock"), clock(new Date(now)));
  };
  const placeDays = () => { // a thread's days begin where those of the reader's zone do
    let before = "";
    for (const item of $$("#entries > li:not(.day)")) {
      const time = $("time[datetime]", item);
      const date = time ? FORMS.date(new Date(time.dateTime)) : before;
      const head = item.previousElementSibling;
      const isHead = Boolean(head && head.matches(".day"));
      if (date === before && isHead) head.remove();
      else if (date !== before && isHead) put($("h3", head), date);
      else if (date !== before) item.insertAdjacentHTML("beforebegin", `<li class="day"><span></span><h3 class="h4">${date}</h3></li>`);
      before = date;
    }
  };
  new MutationObserver(tick).observe(document.body, { childList: true, subtree: true });
  document.addEventListener("formdata", (event) => { const at = event.formData.get("at"); if (at && $("[data-zoned]", event.target)) event.formData.set("at", new Date(at).toISOString()); });
  document.addEventListener("click", (event) => { // today as it is here
    const link = event.target.closest("[data-today]");
    if (link) link.href = link.href.replace(/since=[^&#]*/, `since=${new Date(new Date(Date.now() + offset).setHours(0, 0, 0, 0)).toISOString()}`);
  }, true);
  document.addEventListener("tasuki:shown", () => { setClock(); tick(); });
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
  const openForm = (address) => { dialog.dataset.address = address; htmx.ajax("GET", address, "#form-body").catch(() => {}); }; // forms.js says what fails
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
  const keepOpen = (event) => { // neither Escape nor a click beside takes words away
    const form = $("form[method=post]", dialog);
    const hasWords = form && $$("textarea, input[type=text], input:not([type])", form).some((field) => field.value !== field.defaultValue);
    if (!form || !dialog.open || !(event.type === "click" ? isTyped() : hasWords)) { if (event.type === "click") dialog.close(); return; }
    event.preventDefault();
    document.dispatchEvent(new CustomEvent("tasuki:say", { detail: { form, text: "What you typed is still here. Only the button under it throws it away." } }));
  };
  document.addEventListener("keydown", (event) => { if (event.key === "Escape" && dialog) keepOpen(event); }, true);
  if (dialog) dialog.addEventListener("cancel", keepOpen);
  let pressedBeside = false; // a selection that is dragged out of the form ends beside it, too
  document.addEventListener("pointerdown", (event) => { pressedBeside = event.target === dialog; });
  document.addEventListener("click", (event) => {
    const close = event.target.closest("[data-close]");
    if (close && dialog && dialog.open && dialog.contains(close)) { event.preventDefault(); dialog.close(); }
    if (event.target === dialog && pressedBeside) keepOpen(event);
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

  setClock();
  tick();
  window.setInterval(tick, 1000);
})();
