// Live pages: news says what changed, the page is fetched again and morphed. Focus, selection, scroll, what is typed and what is open stay.
"use strict";
(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const body = document.body;
  const main = $("#main");
  if (body.dataset.version === undefined) return; // nobody is signed in

  const PAUSE = 150; // ms between two fetches, or three times what one took
  const LONGEST_PAUSE = 5000; // ms; a machine that is slow for a moment must not leave a page behind
  const RETRY = 2000; // ms after one that failed
  const LOOK = 1000; // ms before a question that came in place of another one can be answered
  const LONGEST_PRESS = 10000; // ms; where nothing reports that it is over
  const AFTER_PRESS = 100; // ms; a tap is reported a little after the finger left
  const SILENCE = 40000; // ms; as in stream.js
  const UNANSWERED = 2000; // ms; the worker greets at once
  const LONGEST_FETCH = 30000; // ms
  const READING = 4000; // ms for which a pointer that rests counts as reading

  // -- what is counted on every page -----------------------------------------------------
  const put = (element, text) => { if (element && element.textContent !== text) element.textContent = text; };
  const title = (of = document) => of.title.replace(/^\(\d+\) /, "");
  const count = ({ needs, unseen, newest_alert: newest }) => {
    const shown = needs ? `(${needs}) ${title()}` : title();
    if (document.title !== shown) document.title = shown;
    const icon = $("link[rel=icon]");
    const wanted = needs ? icon.dataset.needs : icon.dataset.calm;
    if (icon.getAttribute("href") !== wanted) icon.setAttribute("href", wanted);
    if (navigator.setAppBadge) (needs ? navigator.setAppBadge(needs) : navigator.clearAppBadge()).catch(() => {});
    put($("#alerts-link"), unseen ? `${unseen} new alert${unseen === 1 ? "" : "s"}` : "Alerts");
    if (newest > Number(body.dataset.newestAlert)) showAlerts();
  };
  const showAlerts = async () => {
    if (document.hidden) { unshown = true; return; }
    unshown = false;
    const after = body.dataset.newestAlert;
    const answer = await fetch(`/alerts/toasts?after=${after}`).catch(() => null);
    const text = answer && answer.ok ? await answer.text().catch(() => "") : "";
    if (body.dataset.newestAlert !== after) return; // another answer was quicker: it held the same
    const made = document.createElement("template");
    made.innerHTML = text;
    for (const toast of $$(".toast", made.content)) {
      body.dataset.newestAlert = Math.max(Number(body.dataset.newestAlert), Number(toast.id.slice("alert-".length)));
      $("#toasts").append(toast);
      window.setTimeout(() => { if (!toast.matches(":hover, :focus-within")) toast.remove(); }, 12000);
    }
    for (const old of $$(".toast").slice(0, -3)) old.remove(); // three at once; the list has them all
  };
  let unshown = false;

  // -- news ------------------------------------------------------------------------------
  let stale = false;
  let wasAway = false; // the server did not answer
  let isSignedOut = false;
  let busy = false;
  let pressed = false;
  let timer = 0;
  let nextAt = 0;
  const concerns = (topics, shown = body.dataset.live) => {
    const own = shown.split(" ");
    return topics.includes("everything") || topics.some((topic) => own.includes(topic));
  };
  const hear = (news) => {
    for (const topic of news.topics) heard.set(topic, news.newest);
    if (over() && (news.isFirst || concerns(news.topics, over().dataset.topics))) outdate();
    if (body.dataset.live && (concerns(news.topics) || (news.isFirst && (news.newest > Number(body.dataset.newest) || body.dataset.hosts !== undefined)))) refresh();
    if (news.counts) count(news.counts);
    if (news.alerts.length) document.dispatchEvent(new CustomEvent("tasuki:alerts", { detail: { alerts: news.alerts } }));
  };
  const refresh = () => { stale = true; plan(); };
  const plan = () => {
    window.clearTimeout(timer);
    if (!stale || busy || pressed || document.hidden) return;
    const wait = nextAt - Date.now();
    if (wait > 0) timer = window.setTimeout(plan, wait); else load(body.dataset.version);
  };
  const load = async (version) => {
    const began = Date.now();
    let pause = 0;
    stale = false;
    busy = true;
    try {
      const answer = await fetch(window.location.href.split("#")[0], { headers: version ? { "If-None-Match": `"${version}"` } : {}, cache: "no-store", signal: AbortSignal.timeout(LONGEST_FETCH) });
      const wasSignedOut = isSignedOut;
      isSignedOut = answer.status === 401;
      if (isSignedOut && isTyped()) { delete body.dataset.away; if (!wasSignedOut) document.dispatchEvent(new CustomEvent("tasuki:signed-out")); say("Signed out", true); return; } // what is typed can still be copied
      if (isSignedOut || answer.redirected) { window.location.reload(); return; }
      if (answer.status === 200) show(await answer.text(), version);
      else if (answer.status === 404) say("No longer there", true);
      else if (answer.status !== 304) throw new Error(String(answer.status));
    } catch (problem) {
      stale = true;
      pause = RETRY;
      if (wasAway) return; // once it is back
      if (!(problem instanceof TypeError)) console.debug("tasuki: the page could not be renewed", problem);
    } finally {
      busy = false;
      nextAt = Date.now() + Math.max(PAUSE, pause, Math.min(LONGEST_PAUSE, 3 * (Date.now() - began)));
    }
    plan();
  };

  // -- a new page in place of the old one --------------------------------------------------
  const isTyped = () => $$("#main [data-touched], #form[open] textarea, #form[open] input").some((field) => field.matches("textarea, [type=text], [type=search], input:not([type])") && field.value !== field.defaultValue);
  const isTouched = (field) => field.dataset.touched !== undefined;
  const callbacks = {
    beforeNodeAdded: (node) => { if (!isSame(node)) return true; lacks = true; return false; },
    beforeNodeRemoved: (node) => node.nodeType !== Node.ELEMENT_NODE || node.dataset.said === undefined,
    beforeNodeMorphed: (old, fresh) => {
      if (old.nodeType !== Node.ELEMENT_NODE) return true;
      if (old.dataset.busy !== undefined) return false;
      if (isSame(fresh) || old.dataset.keep !== undefined) return false;
      if (old.dataset.refused && old.dataset.refused === fresh.parentElement?.id) return false; // of the same question
      if (old.matches("input, textarea, select") && isTouched(old)) return false;
      if (old.localName === "details" && old.id === fresh.id) keepOpen(old, fresh);
      if (old.dataset.cursor !== undefined) fresh.setAttribute("data-cursor", "");
      return true;
    },
  };
  const isSame = (node) => node.nodeType === Node.ELEMENT_NODE && node.dataset.same !== undefined;
  const keepOpen = (old, fresh) => { // as the reader left it; of a step in another state as the server says, but for one that is read
    const { state } = fresh.dataset;
    const isNew = state !== undefined && state !== old.dataset.state;
    const isRead = old.dataset.chosen !== undefined || old.matches(":hover, :focus-within");
    if (!isNew || (isRead && state !== "bad")) fresh.toggleAttribute("open", old.open);
    if (old.dataset.chosen !== undefined) fresh.dataset.chosen = "";
  };
  document.addEventListener("click", (event) => { // also by keyboard
    const summary = event.target.closest("details[data-state] > summary");
    if (summary) summary.parentElement.dataset.chosen = "";
  });
  const asked = new Map(); // by place: the question that stood there last
  const askedAt = new Map(); // when one came in place of another
  const noteQuestions = () => {
    for (const question of $$(".question")) {
      const place = question.id.slice(0, question.id.lastIndexOf("-"));
      const before = asked.get(place);
      asked.set(place, question.id);
      if (!before || before === question.id) continue;
      askedAt.set(question.id, Date.now());
      if (question.contains(document.activeElement)) document.activeElement.blur();
    }
  };
  const findUnread = (question) => question && Date.now() - (askedAt.get(question.id) || 0) < LOOK ? question : null;
  const morph = (old, fresh) => {
    noteQuestions();
    Idiomorph.morph(old, fresh, { morphStyle: "outerHTML", callbacks });
    noteQuestions();
  };
  let lacks = false;
  let waitingHtml = null;
  const show = (html, version) => {
    if (pressed) { waitingHtml = { html, version }; return; }
    const fresh = new DOMParser().parseFromString(html, "text/html");
    const place = fresh.getElementById("main");
    if (!place || fresh.body.dataset.version === undefined) { window.location.reload(); return; }
    lacks = false;
    hold(place);
    morph(main, place);
    const { theme } = fresh.documentElement.dataset; // it was changed in another tab
    if (theme) document.documentElement.dataset.theme = theme; else delete document.documentElement.dataset.theme;
    if (title(fresh) !== title()) document.title = fresh.title;
    for (const key of ["version", "newest", "live", "now"]) body.dataset[key] = fresh.body.dataset[key];
    if (lacks && version) { body.dataset.version = ""; stale = true; }
    for (const element of $$("[hx-get], [hx-post]", main)) htmx.process(element);
    document.dispatchEvent(new CustomEvent("tasuki:shown"));
  };
  document.addEventListener("input", (event) => { if (event.target.matches("#main *, [data-renewed] *")) event.target.dataset.touched = ""; });
  document.addEventListener("reset", (event) => { for (const field of $$("[data-touched]", event.target)) delete field.dataset.touched; });

  // -- a part over the page, which has an address and topics of its own -------------------------
  const over = () => $("#form[open] [data-renewed]");
  const heard = new Map(); // the newest line of the log, by topic
  const isOld = ({ dataset }) => [...dataset.topics.split(" "), "everything"].some((topic) => heard.get(topic) > Number(dataset.newest));
  let renewing = null; // what stops it
  let changed = false; // while it was fetched
  const outdate = () => { // until it is shown as it is now
    const part = over();
    if (!part) return;
    part.dataset.stale = "";
    changed = true;
    if (renewing && part.dataset.partial !== undefined) renewing.abort(); // a question does not wait for messages
    renew();
  };
  const renew = async () => {
    const part = over();
    if (!part || renewing || pressed || document.hidden) return;
    const stop = new AbortController();
    renewing = stop;
    changed = false;
    const began = Date.now();
    const patience = window.setTimeout(() => stop.abort(), LONGEST_FETCH);
    const isQuick = part.dataset.stale !== undefined && (part.dataset.partial !== undefined || Boolean($(".question", part)));
    const answer = await fetch(isQuick ? part.dataset.renewed.split("?")[0] : part.dataset.renewed, { headers: { "HX-Request": "true" }, cache: "no-store", signal: stop.signal }).catch(() => null);
    const text = answer && answer.ok ? await answer.text().catch(() => "") : "";
    window.clearTimeout(patience);
    const isSame = over() === part;
    if (isSame && text) renewWith(part, text);
    else if (isSame && answer && answer.status === 404) $("#form").close();
    else if (answer && answer.status === 401) refresh();
    window.setTimeout(() => { renewing = null; renewLater(); }, text || stop.signal.aborted ? Math.max(PAUSE, Math.min(LONGEST_PAUSE, Date.now() - began)) : RETRY);
  };
  const renewWith = (part, text) => {
    const made = document.createElement("template");
    made.innerHTML = text;
    const fresh = $("[data-renewed]", made.content);
    const isLess = fresh && fresh.dataset.partial !== undefined && part.dataset.partial === undefined;
    if (isLess) $(".spoken", fresh).replaceWith($(".spoken", part).cloneNode(true)); // those that are shown, until they come anew
    if (fresh && fresh.dataset.renewed === part.dataset.renewed) morph(part, fresh);
    if (changed) part.dataset.stale = "";
  };
  const renewLater = () => { if (over() && over().matches("[data-stale], [data-partial]")) renew(); };
  document.addEventListener("htmx:afterSwap", (event) => {
    const part = over();
    if (!part || event.detail.target.id !== "form-body") return;
    if (renewing) renewing.abort(); // that was for the one before
    if (isOld(part)) outdate();
    else window.setTimeout(() => { if (over() === part) renewLater(); }, PAUSE); // who goes on quickly reads none of them
  });
  document.addEventListener("submit", (event) => { // what it asks may be another question by now
    const part = event.target.closest("[data-renewed][data-stale]") || findUnread(event.target.closest(".question"));
    if (!part) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    const note = $("[data-note]", part);
    if (note) { note.hidden = false; put(note, "It changed just now: look again, then answer."); }
  }, true);

  // -- places: nothing moves under a pointer or a focus; what is new comes last -----------------
  let movedAt = 0;
  let held = 0;
  const isReading = () => {
    const list = $("[data-ordered]");
    if (!list || $("[data-ordered]:focus-within")) return Boolean(list);
    return Boolean($("[data-ordered] > :hover")) && Date.now() - movedAt < READING;
  };
  const hold = (place) => {
    held = 0;
    if (isReading()) {
      const before = new Map($$("[data-ordered]").map((list) => [list.id, [...list.children].map((one) => one.id)]));
      const home = new Map([...before].flatMap(([list, ids]) => ids.map((id) => [id, list])));
      const lists = new Map($$("[data-ordered]", place).map((list) => [list.id, list]));
      const items = new Map([...lists.values()].flatMap((list) => [...list.children].map((one) => [one.id, one])));
      const wanted = new Map([...lists].map(([id, list]) => [id, [...list.children].map((one) => one.id)]));
      for (const [id, item] of items) { // back to the list where it stands
        const list = lists.get(home.get(id));
        if (list && item.parentElement !== list) { list.append(item); held += 1; }
      }
      for (const [id, list] of lists) {
        const stays = (before.get(id) || []).map((one) => items.get(one)).filter((one) => one && one.parentElement === list);
        const late = [...list.children].filter((one) => home.get(one.id) !== id);
        if (!held && stays.map((one) => one.id).join() !== wanted.get(id).filter((one) => home.get(one) === id).join()) held = 1;
        list.replaceChildren(...stays, ...late);
        const section = list.closest("section");
        section.hidden = !list.children.length && section.dataset.listed === undefined;
      }
    }
    const note = $("#moved", place);
    const head = $("section:not([hidden]) > .sec", place);
    if (note && head && note.closest("section").hidden) head.append(note);
    if (note && held) { note.removeAttribute("data-none"); put($("#moved-count", note), held === 1 ? "One would move" : `${held} would move`); }
    window.clearTimeout(releaser);
    if (held) releaser = window.setTimeout(release, READING);
  };
  let releaser = 0;
  const release = () => {
    if (isReading()) { releaser = window.setTimeout(release, READING); return; }
    body.dataset.version = ""; // the page as it is made, in its own order
    refresh();
  };
  document.addEventListener("pointermove", () => { movedAt = Date.now(); }, { passive: true });
  document.addEventListener("click", (event) => {
    if (!event.target.closest("#moved a") || event.metaKey || event.ctrlKey) return;
    event.preventDefault();
    movedAt = 0;
    if ($("[data-ordered]:focus-within")) document.activeElement.blur();
    release();
  });

  // -- a press: a click on what is replaced in between would be none ---------------------------
  let pressTimer = 0;
  const endPress = () => {
    window.clearTimeout(pressTimer);
    pressed = false;
    if (waitingHtml) { const { html, version } = waitingHtml; waitingHtml = null; show(html, version); }
    plan();
    renewLater();
  };
  const endPressIn = (ms) => { window.clearTimeout(pressTimer); pressTimer = window.setTimeout(endPress, ms); };
  document.addEventListener("pointerdown", () => { pressed = true; endPressIn(LONGEST_PRESS); }, true);
  for (const end of ["pointerup", "pointercancel", "dragend"]) document.addEventListener(end, () => { if (pressed) endPressIn(AFTER_PRESS); }, true);
  window.addEventListener("blur", () => { if (pressed) endPress(); });

  // -- the connection ----------------------------------------------------------------------
  const say = (word, away) => {
    const place = $("#live");
    place.hidden = false;
    place.classList.toggle("attn", away);
    put($("#live-word"), word);
  };
  const setState = (state) => {
    if (state === "away" || state === "refused") { wasAway = true; if (state === "away" && !isSignedOut) body.dataset.away = ""; else delete body.dataset.away; if (!isSignedOut) say("Reconnecting", true); }
    if (state === "refused" && !busy) load(body.dataset.version); // it says why, if nobody is signed in
    if (state === "live") {
      delete body.dataset.away;
      say("Live", false);
      document.dispatchEvent(new CustomEvent("tasuki:connected"));
      if (wasAway && body.dataset.live) refresh();
      if (wasAway) outdate();
      wasAway = false;
    }
  };
  const receive = (message) => { if (message.state) setState(message.state); if (message.news) hear(message.news); };
  let leave = () => {};
  const connectShared = () => {
    const worker = new SharedWorker(body.dataset.stream);
    const own = () => worker.port.postMessage("leave");
    let isHeard = false;
    worker.port.onmessage = (event) => { isHeard = true; receive(event.data); };
    worker.port.postMessage({ newest: Number(body.dataset.newest) });
    leave = own;
    window.setTimeout(() => { // one that was ending with the page before this one never says a word
      if (isHeard || leave !== own) return;
      leave();
      connectShared();
    }, UNANSWERED);
  };
  const prepareAlone = () => { // a browser without SharedWorker: while the page is shown
    let source = null;
    let heard = 0;
    const open = () => {
      if (source || document.hidden) return;
      heard = Date.now();
      source = new EventSource("/live");
      let isFirst = true;
      source.onopen = () => { heard = Date.now(); isFirst = true; receive({ state: "live" }); };
      source.addEventListener("alive", () => { heard = Date.now(); });
      source.onmessage = (event) => { heard = Date.now(); receive({ news: { ...JSON.parse(event.data), isFirst } }); isFirst = false; };
      source.onerror = () => {
        const isRefused = source.readyState === EventSource.CLOSED;
        receive({ state: isRefused ? "refused" : "away" });
        if (isRefused) { source = null; window.setTimeout(open, RETRY); }
      };
    };
    leave = () => { if (source) source.close(); source = null; };
    document.addEventListener("visibilitychange", () => { if (document.hidden) leave(); else open(); });
    window.setInterval(() => {
      if (!source || Date.now() - heard < SILENCE) return;
      leave();
      receive({ state: "away" });
      open();
    }, SILENCE / 8);
    return open;
  };
  const connect = window.SharedWorker ? connectShared : prepareAlone();
  window.addEventListener("pagehide", () => leave());
  window.addEventListener("pageshow", (event) => { if (event.persisted) { connect(); refresh(); } });
  document.addEventListener("visibilitychange", () => { plan(); renewLater(); if (!document.hidden && unshown) showAlerts(); });
  document.addEventListener("tasuki:refresh", () => { refresh(); outdate(); });
  connect();
})();
