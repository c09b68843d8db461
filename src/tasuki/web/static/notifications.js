// Notifications of this browser: asked for by a button, shown once for all its tabs, while nobody looks at one of them.
"use strict";
(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const body = document.body;
  if (body.dataset.version === undefined) return; // nobody is signed in
  const SWITCH = "tasuki-notify"; // of localStorage: "on", "off"
  const OFFER = "tasuki-notify-offer"; // of localStorage: "no" once it was dismissed
  const TOLD = "tasuki-notified"; // of localStorage: the newest alerts that were dealt with
  const LOOKED_AT = "tasuki-looked-at"; // a lock of every tab that somebody looks at
  const TELLING = "tasuki-telling"; // a lock: one tab at a time
  const REMEMBERED = 60;
  const ICON = "/static/icon-192.png";
  const canNotify = window.isSecureContext && "Notification" in window && "locks" in navigator;
  const isOn = () => canNotify && Notification.permission === "granted" && localStorage.getItem(SWITCH) === "on";

  // -- whether somebody looks ------------------------------------------------------------------
  let looks = false;
  let turn = 0;
  let release = () => {};
  const look = (isLookedAt = document.visibilityState === "visible" && document.hasFocus()) => {
    if (!canNotify || isLookedAt === looks) return;
    looks = isLookedAt;
    turn += 1;
    if (!looks) { release(); release = () => {}; return; }
    const own = turn;
    navigator.locks.request(LOOKED_AT, { mode: "shared" }, () => new Promise((done) => { if (own === turn) release = done; else done(); }));
  };
  for (const name of ["focus", "blur", "pageshow"]) window.addEventListener(name, () => look());
  document.addEventListener("visibilitychange", () => look());
  window.addEventListener("pagehide", () => look(false));

  // -- what is shown ---------------------------------------------------------------------------
  const read = () => { try { return JSON.parse(localStorage.getItem(TOLD)) || []; } catch { return []; } };
  const show = ({ id, title, text, path }) => {
    const shown = new Notification(title, { body: text, tag: `alert-${id}`, icon: ICON, data: { path } });
    shown.onclick = () => { shown.close(); window.focus(); if (location.pathname !== path) window.open(path, "_blank", "noopener"); };
  };
  const tell = (alerts) => navigator.locks.request(TELLING, async () => {
    const told = read();
    const fresh = alerts.filter((alert) => !told.includes(`${alert.id}@${alert.at}`));
    if (!fresh.length) return;
    localStorage.setItem(TOLD, JSON.stringify([...told, ...fresh.map((alert) => `${alert.id}@${alert.at}`)].slice(-REMEMBERED)));
    const { held } = await navigator.locks.query();
    if (held.some((lock) => lock.name === LOOKED_AT)) return;
    for (const alert of fresh) show(alert);
  });
  document.addEventListener("tasuki:alerts", (event) => { if (isOn()) tell(event.detail.alerts); });

  // -- the switch ------------------------------------------------------------------------------
  const describe = () => {
    if (!canNotify) return "This browser cannot show notifications here.";
    if (Notification.permission === "denied") return "This browser does not allow them for this page; its settings for the page say so.";
    if (!isOn()) return "They are off.";
    return "They are on while a page of the dashboard is open.";
  };
  const draw = (problem = "") => {
    const offer = $("#offer");
    if (offer) offer.hidden = !canNotify || Notification.permission !== "default" || localStorage.getItem(OFFER) === "no";
    const place = $("#browser");
    if (!place) return;
    $("[data-state]", place).textContent = problem || describe();
    const isPossible = canNotify && Notification.permission !== "denied";
    for (const button of $$("[data-notify]", place)) button.hidden = !isPossible || (button.dataset.notify === "on") === isOn();
  };
  const change = async (wish) => {
    if (wish === "later") localStorage.setItem(OFFER, "no");
    if (wish === "off") localStorage.setItem(SWITCH, "off");
    if (wish === "test") show({ id: "test", title: "A test", text: "Notifications of tasuki arrive here.", path: "/settings" });
    if (wish === "on") {
      try { new Notification("tasuki").close(); } catch { draw("This browser cannot show notifications."); return; } // that of a phone
      if (await Notification.requestPermission() === "granted") localStorage.setItem(SWITCH, "on");
    }
    draw();
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-notify]");
    if (button) change(button.dataset.notify).catch((problem) => draw(`That failed: ${problem.message}`));
  });

  look();
  draw();
})();
