// What pages do beyond htmx: times count on, new cards find their place, alerts stay until they were seen.
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
    const now = Date.now();
    for (const time of $$("time[data-ago]")) put(time, span((now - Date.parse(time.dateTime)) / 1000) + time.dataset.ago);
    put($("#live-clock"), new Date(now).toTimeString().slice(0, 8));
  };

  // -- the connection ------------------------------------------------------------------
  const live = (word, away) => {
    const place = $("#live");
    if (!place) return;
    place.hidden = false;
    place.classList.toggle("attn", away);
    put($("#live-word"), word);
  };
  document.addEventListener("htmx:sseOpen", () => live("Live", false));
  document.addEventListener("htmx:sseError", () => live("Reconnecting", true));

  // -- what comes while a button or a finger is down waits: a click on a part that is replaced in between is none
  const LONGEST = 10000; // ms; where nothing reports that the press is over
  const AFTER = 100; // ms; a tap is reported a little after the finger left
  const handlers = new Map(); // handler of the SSE extension -> the one that waits
  let waiting = null; // what came since the press, in its order; null where nothing is pressed
  let over = 0;
  const release = () => {
    window.clearTimeout(over);
    const came = waiting || [];
    waiting = null;
    for (const show of came) show();
  };
  const releaseIn = (ms) => { window.clearTimeout(over); over = window.setTimeout(release, ms); };
  document.addEventListener("pointerdown", () => { waiting ||= []; releaseIn(LONGEST); }, true);
  for (const end of ["pointerup", "pointercancel", "dragend"]) document.addEventListener(end, () => { if (waiting) releaseIn(AFTER); }, true);
  window.addEventListener("blur", release);
  htmx.createEventSource = (url) => {
    const source = new EventSource(url);
    const listen = source.addEventListener.bind(source);
    const forget = source.removeEventListener.bind(source);
    source.addEventListener = (type, handler) => {
      const shown = (event) => { if (waiting) waiting.push(() => handler(event)); else handler(event); };
      handlers.set(handler, shown);
      listen(type, shown);
    };
    source.removeEventListener = (type, handler) => { forget(type, handlers.get(handler) || handler); handlers.delete(handler); };
    return source;
  };

  // -- forms over the page -------------------------------------------------------------
  const dialog = $("#form");
  document.addEventListener("htmx:afterSwap", (event) => {
    if (dialog && event.detail.target && event.detail.target.id === "form-body" && !dialog.open) {
      dialog.showModal();
      const first = $("[autofocus], input, textarea", dialog);
      if (first) first.focus();
    }
  });
  document.addEventListener("click", (event) => {
    const close = event.target.closest("[data-close]");
    if (close && dialog && dialog.open && dialog.contains(close)) { event.preventDefault(); dialog.close(); }
    if (event.target === dialog) dialog.close();
    const shut = event.target.closest(".toast [data-dismiss]");
    if (shut) shut.closest(".toast").remove();
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches("#filter select")) event.target.form.requestSubmit();
  });

  // -- cards ---------------------------------------------------------------------------
  const listOf = (card) => `cards-${card.dataset.list || card.dataset.group}`; // with several hosts, each has a list
  const recount = () => {
    const cards = $$("#cards .card");
    const moved = cards.filter((card) => card.parentElement.id !== listOf(card)).length;
    const note = $("#moved");
    if (note) {
      note.toggleAttribute("data-none", !moved);
      put($("#moved-count"), `${moved} would move`);
    }
    if ($("#cards[data-whole]") && !$("#cards .more")) {
      for (const place of $$("[data-count]")) {
        const group = place.dataset.count;
        put(place, String(group ? cards.filter((card) => card.dataset.group === group).length : cards.length));
      }
    }
  };
  document.addEventListener("htmx:sseBeforeMessage", (event) => {
    const { type, data } = event.detail;
    if (type === "arrived") {
      event.preventDefault();
      const made = document.createElement("template");
      made.innerHTML = data;
      for (const card of [...made.content.children]) {
        if (document.getElementById(card.id)) continue;
        const list = document.getElementById(listOf(card));
        const whole = $("#cards[data-whole]");
        const isNew = whole && Number(card.id.slice(6)) > Number(whole.dataset.whole);
        if (!list || !whole || !(isNew || card.dataset.group === "needs")) continue;
        list.append(card);
        list.closest("section").hidden = false;
        if ($("#none")) $("#none").remove();
        $("#filter").hidden = false;
        htmx.process(card);
      }
      recount();
      htmx.trigger(document.body, "recount");
    } else if (type === "alert") {
      const list = $("#alert-list");
      const made = document.createElement("template");
      made.innerHTML = data;
      const alert = made.content.firstElementChild;
      if (!alert || document.getElementById(alert.id)) { event.preventDefault(); return; }
      const line = $("template", alert);
      const number = Number(alert.id.slice("alert-".length));
      if (list && line && !document.getElementById(`alert-line-${number}`)) list.prepend(line.content.cloneNode(true));
      const link = $("#alerts-link");
      if (number <= Number(link.dataset.newest)) { event.preventDefault(); return; } // counted when the page was made
      link.dataset.unseen = Number(link.dataset.unseen) + 1;
      put(link, `${link.dataset.unseen} new alert${link.dataset.unseen === "1" ? "" : "s"}`);
      for (const old of $$(".toast").slice(0, -2)) old.remove(); // three at once; the list has them all
      window.setTimeout(() => { const it = document.getElementById(alert.id); if (it && !it.matches(":hover, :focus-within")) it.remove(); }, 12000);
    }
  });
  document.addEventListener("htmx:load", (event) => { // sseMessage reaches no listener: the card that it is sent to is gone
    if (!event.target.matches || !event.target.matches(".card")) return;
    recount();
    htmx.trigger(document.body, "recount");
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

  // -- a page that is too far behind ----------------------------------------------------
  document.addEventListener("htmx:sseBeforeMessage", (event) => {
    if (event.detail.type !== "reload") return;
    const typed = $$("textarea, input:not([type=hidden])").some((field) => field.value !== field.defaultValue);
    if (typed || (dialog && dialog.open)) live("Out of date: reload", true);
    else window.location.reload();
  });

  tick();
  window.setInterval(tick, 1000);
  recount();
})();
