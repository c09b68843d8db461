// One stream of news for all open pages of a browser: a SharedWorker, since a browser allows six connections to a server.
"use strict";
const RETRY = 2000; // ms
const SILENCE = 40000; // ms without a word; the server says one every 15 s
const ports = new Set();
let source = null;
let last = null; // what a page that opens later must know: the newest message, with the newest counts
let isFirst = true; // the next message is the first of this connection: pages older than it are out of date
let known = null; // the newest line of the log that pages were told of: alerts since then were missed
let state = "connecting";
let heard = 0;

const tell = (message) => { for (const port of ports) port.postMessage(message); };
const setState = (word) => { state = word; tell({ state }); };
const open = () => {
  heard = Date.now();
  source = new EventSource(known === null ? "/live" : `/live?after=${known}`);
  source.onopen = () => { heard = Date.now(); isFirst = true; setState("live"); };
  source.addEventListener("alive", () => { heard = Date.now(); });
  source.onmessage = (event) => {
    heard = Date.now();
    const news = JSON.parse(event.data);
    known = news.newest;
    last = { ...news, topics: [], alerts: [], counts: news.counts || (last && last.counts), isFirst: true };
    tell({ news: { ...news, isFirst } });
    isFirst = false;
  };
  source.onerror = () => {
    if (source.readyState !== EventSource.CLOSED) { setState("away"); return; } // it tries again itself
    setState("refused"); // as when nobody is signed in any more
    source = null;
    if (ports.size) setTimeout(() => { if (!source && ports.size) open(); }, RETRY);
  };
};
setInterval(() => { // a connection that broke without a word, as after a sleep, looks open for ever
  if (!source || Date.now() - heard < SILENCE) return;
  source.close();
  setState("away");
  open();
}, SILENCE / 8);
self.onconnect = (event) => {
  const port = event.ports[0];
  port.onmessage = (message) => {
    if (message.data.newest !== undefined) { // what came after that page was made, and before this stream begins
      if (known === null) known = message.data.newest;
      if (!source) open();
    }
    if (message.data !== "leave") return;
    ports.delete(port);
    if (!ports.size && source) { source.close(); source = null; last = null; state = "connecting"; }
  };
  ports.add(port);
  port.postMessage({ state });
  if (last) port.postMessage({ news: last });
};
