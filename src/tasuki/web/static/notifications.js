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
  const canNotify = window.isSecureContext && "Notification" in window && "serviceWorker" in navigator && "locks" in navigator;
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
  const register = () => navigator.serviceWorker.register("/sw.js").then(() => navigator.serviceWorker.ready);
  const show = async ({ id, title, text, path }) => (await register()).showNotification(title, { body: text, tag: `alert-${id}`, icon: ICON, data: { path } });
  const tell = (alerts) => navigator.locks.request(TELLING, async () => {
    const told = read();
    const fresh = alerts.filter((alert) => !told.includes(`${alert.id}@${alert.at}`));
    if (!fresh.length) return;
    localStorage.setItem(TOLD, JSON.stringify([...told, ...fresh.map((alert) => `${alert.id}@${alert.at}`)].slice(-REMEMBERED)));
    const { held } = await navigator.locks.query();
    if (held.some((lock) => lock.name === LOOKED_AT)) return;
    for (const alert of fresh) await show(alert);
  });
  document.addEventListener("tasuki:alerts", (event) => { if (isOn()) tell(event.detail.alerts); });

  // -- notifications while no page is open: by the push service of the browser --------------------
  const SUBSCRIBED = "tasuki-push"; // of localStorage: what the server knows of this browser
  let key = ""; // of the server; empty where the page has no HTTPS
  const send = (address, fields) => fetch(address, { method: "POST", body: new URLSearchParams(fields), headers: { "HX-Request": "true" } });
  const decode = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (letter) => letter.charCodeAt(0));
  const ask = async () => {
    const answer = await fetch("/settings/push").catch(() => null);
    const told = answer && answer.ok && !answer.redirected ? await answer.json() : { key: "", mark: "" };
    key = told.key;
    return told;
  };
  const isOf = (subscription) => String(new Uint8Array(subscription.options.applicationServerKey)) === String(decode(key));
  const subscribe = async () => {
    const { mark } = await ask();
    if (!key) return "";
    const { pushManager } = await register();
    try {
      let found = await pushManager.getSubscription();
      if (found && !isOf(found)) { await found.unsubscribe(); found = null; } // the server has another key by now
      const { endpoint, keys } = (found || await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: decode(key) })).toJSON();
      const known = `${mark} ${endpoint}`;
      if (localStorage.getItem(SUBSCRIBED) === known) return "";
      const answer = await send("/settings/push", { endpoint, public_key: keys.p256dh, secret: keys.auth });
      if (!answer.ok) return new DOMParser().parseFromString(await answer.text(), "text/html").body.textContent.trim();
      localStorage.setItem(SUBSCRIBED, known);
      return "";
    } catch (problem) {
      return `They are on while a page of the dashboard is open. Otherwise not: ${problem.message}`;
    }
  };
  const unsubscribe = async () => {
    localStorage.removeItem(SUBSCRIBED);
    const found = await (await register()).pushManager.getSubscription();
    if (!found) return;
    await send("/settings/push/end", { endpoint: found.endpoint });
    await found.unsubscribe();
  };

  // -- the switch ------------------------------------------------------------------------------
  const describe = () => {
    if (!canNotify) return "This browser cannot show notifications here.";
    if (Notification.permission === "denied") return "This browser does not allow them for this page; its settings for the page say so.";
    if (!isOn()) return "They are off.";
    return key ? "They are on, also while no page is open." : "They are on while a page of the dashboard is open.";
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
    if (wish === "off") { localStorage.setItem(SWITCH, "off"); await unsubscribe(); }
    if (wish === "test") await show({ id: "test", title: "A test", text: "Notifications of tasuki arrive here.", path: "/settings" });
    if (wish !== "on") { draw(); return; }
    const answer = await Notification.requestPermission();
    if (answer === "granted") { await register(); localStorage.setItem(SWITCH, "on"); }
    draw(answer === "granted" ? await subscribe() : "");
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-notify]");
    if (button) change(button.dataset.notify).catch((problem) => draw(`That failed: ${problem.message}`));
  });

  look();
  draw();
  if (isOn()) subscribe().then(draw); else if ($("#browser")) ask().then(() => draw()); // a subscription may have ended with a session
})();
