// One stream of news for all open pages of a browser: a SharedWorker, since a browser allows six connections to a server.
"use strict";
const RETRY = 2000; // ms
const ports = new Set();
let source = null;
let last = null; // the newest message, for a page that opens later
let state = "connecting";

const tell = (message) => { for (const port of ports) port.postMessage(message); };
const setState = (word) => { state = word; tell({ state }); };
const open = () => {
  source = new EventSource(last ? `/live?after=${last.newest}` : "/live");
  source.onopen = () => setState("live");
  source.onmessage = (event) => { last = JSON.parse(event.data); tell({ news: last }); };
  source.onerror = () => {
    setState("away");
    if (source.readyState !== EventSource.CLOSED) return; // it tries again itself
    source = null;
    if (ports.size) setTimeout(() => { if (!source && ports.size) open(); }, RETRY);
  };
};
self.onconnect = (event) => {
  const port = event.ports[0];
  port.onmessage = (message) => {
    if (message.data !== "leave") return;
    ports.delete(port);
    if (!ports.size && source) { source.close(); source = null; last = null; }
  };
  ports.add(port);
  port.postMessage({ state });
  if (last) port.postMessage({ news: { ...last, topics: [], alerts: [] } });
  if (!source) open();
};
