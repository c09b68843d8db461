// The service worker: it shows what the server pushes, and opens the page of a notification. It answers for no page and keeps none.
"use strict";
const pages = () => self.clients.matchAll({ type: "window", includeUncontrolled: true });
const read = (data) => {
  try { return data.json(); } catch { return { title: "tasuki", text: "There is a new alert.", path: "/alerts" }; }
};
const open = async (path) => {
  const url = new URL(path, self.location.origin);
  if (url.origin !== self.location.origin) return;
  const shown = (await pages()).find((page) => new URL(page.url).pathname === url.pathname);
  if (shown) await shown.focus(); else await self.clients.openWindow(url.href);
};

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("push", (event) => event.waitUntil((async () => {
  const alert = read(event.data);
  if ((await pages()).some((page) => page.focused && page.visibilityState === "visible")) return;
  await self.registration.showNotification(String(alert.title), { body: String(alert.text), tag: `alert-${alert.id}`, icon: "/static/icon-192.png", data: { path: String(alert.path) } });
})()));
self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(open(event.notification.data.path));
});
