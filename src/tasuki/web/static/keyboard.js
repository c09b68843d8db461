// Keys: a cursor that goes through agents, a palette, the next agent that waits. `?` lists them.
"use strict";
(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  if (document.body.dataset.version === undefined) return;

  const OFF = "tasuki-single-keys-off";
  const PLACES = { f: "/", h: "/handoffs", l: "/lineage", t: "/threads", p: "/personas", a: "/alerts", s: "/settings" };
  const PREFIX = 1500; // ms in which the letter after `g` counts
  const dialog = $("#form");
  const areOff = () => { try { return window.localStorage.getItem(OFF) === "yes"; } catch { return false; } };
  const tellHints = () => { document.documentElement.toggleAttribute("data-no-letters", areOff()); };
  tellHints();

  // -- the cursor ------------------------------------------------------------------------
  const items = () => $$("[data-item]").filter((item) => item.offsetParent);
  const current = () => { const inside = document.activeElement.closest("[data-item]"); return inside || $("[data-item][data-cursor]"); };
  const mark = (item) => {
    for (const other of $$("[data-cursor]")) other.removeAttribute("data-cursor");
    item.setAttribute("data-cursor", "");
  };
  const put = (item) => {
    mark(item);
    const link = $("[data-open]", item);
    if (link) link.focus({ preventScroll: true });
    item.scrollIntoView({ block: "nearest" });
  };
  const move = (step) => {
    const all = items();
    if (!all.length) return;
    const at = all.indexOf(current());
    put(all[at < 0 ? 0 : Math.min(all.length - 1, Math.max(0, at + step))]);
  };
  const next = () => {
    const waiting = items().filter((item) => item.dataset.group === "needs");
    if (!waiting.length) {
      const here = window.location.pathname.match(/^\/agents\/(\d+)$/);
      window.location.assign(`/next?after=${here ? here[1] : 0}`);
      return;
    }
    put(waiting[(waiting.indexOf(current()) + 1) % waiting.length]);
  };
  const isUnchosen = () => { // among several nothing is done to the first one by chance
    const all = items().filter((item) => item.dataset.group !== undefined);
    if (!all.length || current()) return false;
    put(all.find((item) => item.dataset.group === "needs") || all[0]);
    return true;
  };
  const handOff = () => {
    if (isUnchosen()) return;
    const item = current();
    const link = $("[data-hand]", item || $("#main"));
    if (link) link.click();
    else if (item && item.dataset.group !== undefined) openForm(`/agents/${item.id.slice("agent-".length)}/handoff`);
  };
  const isPassed = (control) => control.localName === "summary" && control.parentElement.open;
  const findAnswer = (place) => $$("[data-answer]", place).find((control) => !isPassed(control)); // what is to be read first
  const answer = () => {
    if (isUnchosen()) return;
    const place = current() || $("#main");
    const control = findAnswer(place);
    if (control) { control.focus(); return; }
    const link = $("[data-open]", place);
    if (link) link.click();
  };
  const select = () => { const box = current() && $("input[type=checkbox]", current()); if (box) box.click(); };

  // -- a peek ----------------------------------------------------------------------------
  const CONTROLS = "button, input, select, textarea, summary, pre"; // a blank is theirs
  const peeked = () => $("#form[open] #peek");
  const agents = () => items().filter((item) => item.dataset.group !== undefined);
  const peek = (item) => {
    if (!item || item.dataset.group === undefined) return false;
    openForm(`/agents/${item.id.slice("agent-".length)}/peek`);
    return true;
  };
  const peekOn = (step) => {
    const all = agents();
    const at = all.indexOf(current());
    const to = all[at < 0 ? 0 : at + step];
    if (to) { put(to); peek(to); }
  };
  const PEEKED = {
    " ": () => dialog.close(), j: () => peekOn(1), k: () => peekOn(-1),
    a: () => { const control = findAnswer($("#peek")); if (control) control.focus(); },
    Enter: () => $("#peek [data-open]").click(),
  };
  const steerPeek = (event) => {
    const action = PEEKED[event.key];
    if (event.key !== "a" && event.key !== "Enter" && $("#peek [data-touched]")) return; // what is ticked or typed stays
    if (!action || event.target.closest(event.key === "Enter" ? `a, ${CONTROLS}` : event.key === " " ? CONTROLS : "textarea")) return;
    event.preventDefault();
    if (!event.repeat || event.key === "j" || event.key === "k") action();
  };
  if (dialog) dialog.addEventListener("close", () => { const item = $("#peek") && $("[data-item][data-cursor]"); if (item) put(item); });

  // -- the palette -----------------------------------------------------------------------
  const openForm = (address) => { document.dispatchEvent(new CustomEvent("tasuki:form", { detail: address })); };
  const shown = () => $$("#palette-list > li:not([hidden]) > a");
  const choose = (entry) => {
    for (const other of $$("#palette-list [aria-selected=true]")) other.setAttribute("aria-selected", "false");
    const field = $("#palette");
    if (!entry) { field.removeAttribute("aria-activedescendant"); return; }
    entry.setAttribute("aria-selected", "true");
    field.setAttribute("aria-activedescendant", entry.id);
    entry.scrollIntoView({ block: "nearest" });
  };
  const filter = (field) => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const entry of $$("#palette-list > li")) {
      const text = entry.textContent.toLowerCase();
      entry.hidden = !words.every((word) => text.includes(word));
    }
    $("#palette-none").hidden = shown().length > 0;
    choose(shown()[0]);
  };
  const steer = (event) => {
    const all = shown();
    const at = all.findIndex((entry) => entry.getAttribute("aria-selected") === "true");
    if (event.key === "ArrowDown") choose(all[Math.min(at + 1, all.length - 1)]);
    else if (event.key === "ArrowUp") choose(all[Math.max(at - 1, 0)]);
    else if (event.key === "Enter" && all[at]) all[at].click();
    else return;
    event.preventDefault();
  };
  document.addEventListener("input", (event) => { if (event.target.id === "palette") filter(event.target); });
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target.id !== "form-body") return;
    if ($("#palette")) choose(shown()[0]);
    const item = $("#peek") && document.getElementById(`agent-${$("#peek").dataset.agent}`);
    if (item) mark(item);
    const single = $("#single-keys");
    if (!single) return;
    single.hidden = false;
    $("input", single).checked = !areOff();
    $("input", single).addEventListener("change", (change) => {
      try { if (change.target.checked) window.localStorage.removeItem(OFF); else window.localStorage.setItem(OFF, "yes"); } catch { /* nothing is kept there */ }
      tellHints();
    });
  });

  // -- selected rows -----------------------------------------------------------------------
  const tell = () => {
    const note = $("#picked");
    if (!note) return;
    const count = $$("input[name=id][form=bulk]:checked").length;
    const all = $("#pick-all");
    all.closest("label").hidden = false;
    all.checked = count > 0 && count === boxes().length;
    all.indeterminate = count > 0 && !all.checked;
    note.textContent = count ? `${count} selected:` : "Select agents to";
  };
  const boxes = () => $$("input[name=id][form=bulk]").filter((box) => box.offsetParent);
  const tick = (box, checked) => { box.checked = checked; box.dataset.touched = ""; };
  let lastBox = "";
  document.addEventListener("click", (event) => { // with Shift all between the last one and this one
    const box = event.target;
    if (!box.matches("input[name=id][form=bulk]")) return;
    const all = boxes();
    const from = all.findIndex((one) => one.id === lastBox);
    if (event.shiftKey && from >= 0) {
      const to = all.indexOf(box);
      for (const one of all.slice(Math.min(from, to), Math.max(from, to) + 1)) tick(one, box.checked);
      tell();
    }
    lastBox = box.id;
  });
  document.addEventListener("change", (event) => {
    if (event.target.id === "pick-all") for (const box of boxes()) tick(box, event.target.checked);
    if (event.target.matches("input[form=bulk], #pick-all")) tell();
  });
  document.addEventListener("tasuki:shown", tell);
  tell();

  // -- keys ------------------------------------------------------------------------------
  const SINGLE = {
    "/": () => { const field = $("#search") || $("input[type=search]"); if (field) { field.focus(); field.select(); } else window.location.assign("/"); },
    "?": () => openForm("/keys"), j: () => move(1), k: () => move(-1), n: next, a: answer,
    h: handOff, x: select, z: () => { const undo = $("#notes [data-undo]"); if (undo) undo.click(); },
  };
  let prefixed = 0;
  const isTyping = (target) => target.matches("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]") || target.closest("[data-typing]");
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing) return;
    if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k" && !event.target.closest("[data-typing]")) { event.preventDefault(); if (!dialog.open) openForm("/palette"); return; }
    if (event.target.id === "palette") { steer(event); return; }
    if (event.key === "Escape" && isTyping(event.target) && !dialog.open && !event.target.closest("[data-typing]")) { event.target.blur(); return; }
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || areOff()) return;
    if (dialog.open) { if (peeked()) steerPeek(event); return; }
    if (event.key === " ") { if (!event.repeat && !event.target.closest(CONTROLS) && peek(current())) event.preventDefault(); return; }
    if (Date.now() - prefixed < PREFIX) {
      prefixed = 0;
      if (PLACES[event.key]) { event.preventDefault(); window.location.assign(PLACES[event.key]); return; }
    }
    if (event.key === "g") { prefixed = Date.now(); return; }
    const action = SINGLE[event.key];
    if (event.repeat && event.key !== "j" && event.key !== "k") return; // a key that is held is one press
    if (action) { event.preventDefault(); action(); }
  });
})();
