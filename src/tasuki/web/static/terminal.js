// The terminal on an agent's page: shows its pane as it is now, and types what the operator types there.
"use strict";
(() => {
  const QUICK = 5000; // ms after a change in which it asks at its own pace
  const SLOWEST = 2000;
  const LARGEST = 13; // px of its letters
  const SMALLEST = 8.5;
  const ROWS_ABOVE = 2000;
  const FEWEST_ROWS = 8; // of a terminal with little text
  const LONGEST_RULE = 20; // characters of a drawn line, where lines are wrapped
  const KEYS = {
    "\r": "Enter", "\n": "C-j", "\t": "Tab", "\x7f": "BSpace", "\b": "BSpace", "\x1b": "Escape", "\x1b[Z": "BTab",
    "\x1b[2~": "IC", "\x1b[3~": "DC", "\x1b[5~": "PPage", "\x1b[6~": "NPage",
  };
  const MOVES = { A: "Up", B: "Down", C: "Right", D: "Left", H: "Home", F: "End" };
  const TOKEN = /\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Z]|\x1b[a-z0-9]|[\x00-\x1f\x7f]|[^\x00-\x1f\x7f]+/g;
  const PALETTES = {
    light: {
      black: "#1c1c1a", red: "#ad241c", green: "#1d6a40", yellow: "#845000", blue: "#1d5ba6", magenta: "#8a2f8f", cyan: "#0b6570", white: "#d8d8d2",
      brightBlack: "#6b6b64", brightRed: "#c0392f", brightGreen: "#237a4b", brightYellow: "#8f5c00", brightBlue: "#2a6cbd", brightMagenta: "#9c41a1", brightCyan: "#127783", brightWhite: "#ffffff",
      selectionBackground: "#b8cfee",
    },
    dark: {
      black: "#34342f", red: "#f28b82", green: "#7cc79a", yellow: "#e2a94a", blue: "#86b6f2", magenta: "#d99bdc", cyan: "#6fc7d2", white: "#d8d8d2",
      brightBlack: "#8f8f87", brightRed: "#ff9f97", brightGreen: "#92dbaf", brightYellow: "#f2bd66", brightBlue: "#9cc5f8", brightMagenta: "#e7b3ea", brightCyan: "#8adbe5", brightWhite: "#ffffff",
      selectionBackground: "#2f4a6d",
    },
  };
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
  const token = (name) => window.getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const theme = () => ({
    ...PALETTES[isDark() ? "dark" : "light"], background: token("--sunken"), foreground: token("--text"), cursor: token("--text"), cursorAccent: token("--sunken"),
  });
  const make = (tag, name, text = "") => {
    const element = document.createElement(tag);
    element.className = name;
    element.textContent = text;
    return element;
  };

  // -- the page allows neither style elements nor style attributes: both become rules and properties ----
  const styleSheet = () => {
    const sheet = new CSSStyleSheet();
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
    const place = document.createElement("span");
    place.hidden = true;
    Object.defineProperty(place, "textContent", { set: (text) => sheet.replaceSync(text) });
    place.remove = () => {
      document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet);
      Element.prototype.remove.call(place);
    };
    return place;
  };
  HTMLSpanElement.prototype.setAttribute = function setAttribute(name, value) { // xterm makes those of its rows by the page's own document
    if (name === "style") this.style.cssText = value;
    else Element.prototype.setAttribute.call(this, name, value);
  };
  const own = new Proxy(document, {
    get: (target, name) => {
      if (name === "createElement") return (tag) => (tag === "style" ? styleSheet() : target.createElement(tag));
      const value = target[name];
      return typeof value === "function" ? value.bind(target) : value;
    },
  });

  // -- xterm corrects the contrast of inverse text as if it were not: so its two colours are swapped here ----
  const COLOURS = /(?:^|;)(?:([34]8;(?:5;\d+|2;\d+;\d+;\d+))|(3[0-7]|4[0-7]|9[0-7]|10[0-7]))(?=;|$)/g;
  const asNumbers = (hex) => hex.match(/[0-9a-f]{2}/gi).map((one) => parseInt(one, 16)).join(";");
  const swapLayer = (colour) => {
    const [first, ...rest] = colour.split(";");
    const other = Number(first) + ((first >= 40 && first < 50) || first >= 100 ? -10 : 10);
    return [other, ...rest].join(";");
  };
  const swap = (style) => {
    const colours = [...style.matchAll(COLOURS)].map((found) => found[1] || found[2]);
    const isGround = (colour) => /^(?:4|10)/.test(colour);
    const ink = colours.find((one) => !isGround(one)) || `38;2;${asNumbers(token("--text"))}`;
    const ground = colours.find(isGround) || `48;2;${asNumbers(token("--sunken"))}`;
    const others = style.replace(COLOURS, "").split(";").filter((one) => one && one !== "7");
    return [...others, swapLayer(ground), swapLayer(ink)].join(";");
  };
  const withoutInverse = (line) => line.replace(/\x1b\[((?:[1-6];)*7(?:;[\d;]*)?)m/g, (_, style) => `\x1b[${swap(style)}m`);

  // -- keys -----------------------------------------------------------------------------
  const nameKey = (sequence) => {
    if (KEYS[sequence]) return KEYS[sequence];
    const move = /^\x1b(?:\[(?:1;(\d+))?|O)([ABCDHF])$/.exec(sequence);
    if (move) {
      const held = Number(move[1] || 1) - 1;
      return (held & 4 ? "C-" : "") + (held & 2 ? "M-" : "") + (held & 1 ? "S-" : "") + MOVES[move[2]];
    }
    if (/^\x1b[a-z0-9]$/.test(sequence)) return `M-${sequence[1]}`;
    const code = sequence.charCodeAt(0);
    return sequence.length === 1 && code >= 1 && code <= 26 ? `C-${String.fromCharCode(code + 96)}` : "";
  };
  const readKeys = (data) => {
    const keys = [];
    for (const [part] of data.matchAll(TOKEN)) {
      if (part[0] > "\x1f" && part[0] !== "\x7f") keys.push({ type: "text", value: part });
      else if (nameKey(part)) keys.push({ type: "key", value: nameKey(part) });
    }
    return keys;
  };
  const joinTexts = (keys) => {
    const joined = [];
    for (const key of keys) {
      const last = joined[joined.length - 1];
      if (last && last.type === "text" && key.type === "text") last.value += key.value;
      else joined.push({ ...key });
    }
    return joined;
  };
  const post = async (address, fields) => {
    const answer = await window.fetch(address, { method: "POST", headers: { Accept: "application/json" }, body: new URLSearchParams(fields) });
    if (answer.status === 401) return { problem: "You are signed out. Sign in, and load the page again." };
    if (!answer.ok) return { problem: `Nothing was typed: the server refuses it (${answer.status}).` };
    return answer.json();
  };

  class AgentTerminal {
    constructor(place) {
      this.place = place;
      this.address = `/agents/${place.dataset.agent}`;
      this.canType = "own" in place.dataset;
      this.known = { epoch: "", above: -1, tag: "" };
      this.lines = []; // those above the screen, and of the screen
      this.view = null;
      this.waiting = []; // keys that were typed while others are on their way
      this.typing = false;
      this.typist = [...window.crypto.getRandomValues(new Uint8Array(12))].map((one) => one.toString(16).padStart(2, "0")).join("");
      this.number = 0;
      this.refused = ""; // why the last keys were not typed
      this.asking = false;
      this.pressed = false;
      this.changed = Date.now();
      this.pace = 400;
      this.wrapped = null; // null: where the letters would be too small
      this.timer = 0;
      this.build();
      this.open();
      this.ask();
    }

    // -- its parts -----------------------------------------------------------------------
    build() {
      this.first = [...this.place.childNodes]; // shown until the first answer
      this.problem = make("p", "box rest term-problem");
      this.problem.setAttribute("role", "status");
      this.problem.hidden = true;
      this.box = make("div", "term-box");
      this.host = make("div", "term-host");
      this.box.append(this.host);
      if (this.canType) this.box.dataset.typing = ""; // the page's own keys rest here
      this.text = make("pre", "screen wrapped");
      this.text.tabIndex = 0;
      this.text.setAttribute("role", "region");
      this.text.setAttribute("aria-label", "Screen of its pane");
      this.box.hidden = this.text.hidden = true;
      const say = make("div", "term-say small muted");
      this.help = make("span", "", this.canType ? "What you type here goes to the agent; F6 leaves the terminal, Shift-F6 backwards." : "Read-only: nothing is typed to this agent.");
      this.help.id = "terminal-help";
      this.note = make("span", "attn");
      this.note.setAttribute("role", "status");
      this.toggle = make("button", "btn end");
      this.toggle.type = "button";
      this.toggle.hidden = true;
      this.toggle.addEventListener("click", () => { this.wrapped = !this.isWrapped(); this.fit(); this.showAll(); });
      say.append(this.help, this.note, this.toggle);
      this.place.append(this.problem, this.box, this.text, say);
    }

    open() {
      this.term = new window.Terminal({
        cols: 80, rows: 24, scrollback: ROWS_ABOVE + 100, convertEol: true, documentOverride: own, disableStdin: !this.canType,
        fontFamily: token("--mono"), fontSize: LARGEST, lineHeight: 1.2, minimumContrastRatio: 4.5, theme: theme(), cursorInactiveStyle: "outline", cursorBlink: false,
        macOptionIsMeta: true,
      });
      this.term.open(this.host);
      if (this.term.textarea) this.term.textarea.setAttribute("aria-describedby", "terminal-help");
      this.term.attachCustomKeyEventHandler((event) => this.takeKey(event));
      this.term.onData((data) => this.type(readKeys(data)));
      this.term.onSelectionChange(() => this.settle());
      this.term.onScroll(() => this.clip());
      this.place.addEventListener("paste", (event) => this.paste(event), true);
      this.place.addEventListener("pointerdown", () => { this.pressed = true; });
      this.forget = new AbortController();
      const listen = (target, type, handler) => target.addEventListener(type, handler, { signal: this.forget.signal });
      for (const type of ["pointerup", "pointercancel", "blur"]) listen(window, type, () => { this.pressed = false; this.settle(); });
      listen(document, "selectionchange", () => this.settle());
      listen(document, "visibilitychange", () => { if (!document.hidden) this.askSoon(0); });
      listen(window, "resize", () => { this.fit(); this.showAll(); });
      const recolour = () => { this.term.options.theme = theme(); this.showAll(); };
      listen(dark, "change", recolour);
      const observer = new MutationObserver(recolour);
      observer.observe(document.documentElement, { attributeFilter: ["data-theme"] });
      this.forget.signal.addEventListener("abort", () => observer.disconnect());
    }

    // -- what is shown -------------------------------------------------------------------
    isHeld() {
      const selection = document.getSelection();
      return this.pressed || this.term.hasSelection() || Boolean(selection && !selection.isCollapsed && this.text.contains(selection.anchorNode));
    }

    settle() { // a selection came or went
      const held = this.isHeld();
      if (this.view) this.say(held && !this.pressed ? "Waits while text is selected." : "");
      if (!held && this.held) this.askSoon(0);
      this.held = held;
    }

    say(text) { if (this.note.textContent !== text) this.note.textContent = text; }

    tell(problem) {
      for (const old of this.place.querySelectorAll(":scope > .box:not(.term-problem)")) old.remove();
      this.problem.hidden = !problem;
      if (this.problem.textContent !== problem) this.problem.textContent = problem;
    }

    async ask() {
      if (this.asking) return;
      if (!this.place.isConnected) { this.close(); return; }
      if (document.hidden || this.isHeld()) { this.askSoon(this.pace); return; }
      this.asking = true;
      try {
        await this.fetch();
      } catch {
        this.tell("The server cannot be reached. The terminal is as it was last.");
        this.changed = 0;
      }
      this.asking = false;
      this.askSoon(this.findPace());
    }

    async fetch() {
      const query = new URLSearchParams({ epoch: this.known.epoch, above: this.known.above });
      const headers = this.known.tag ? { "If-None-Match": `"${this.known.tag}"` } : {};
      const answer = await window.fetch(`${this.address}/terminal?${query}`, { headers, cache: "no-store" });
      if (answer.status === 304) { this.tell(this.refused); return; }
      if (answer.status === 401) { this.tell("You are signed out. Sign in, and load the page again."); this.changed = 0; return; }
      if (!answer.ok) { this.tell(`The terminal cannot be read (${answer.status}).`); this.changed = 0; return; }
      const view = await answer.json();
      this.pace = view.pace;
      if (view.problem) { this.tell(view.problem); this.changed = 0; return; }
      this.tell(this.refused);
      this.changed = Date.now();
      if (!this.isHeld()) this.show(view); // text is being selected since it asked: it asks again
    }

    findPace() {
      const still = Date.now() - this.changed;
      return still < QUICK ? this.pace : Math.max(this.pace, Math.min(SLOWEST, this.pace * (still / QUICK)));
    }

    askSoon(ms) {
      window.clearTimeout(this.timer);
      this.timer = window.setTimeout(() => this.ask(), ms);
    }

    show(view) {
      const fresh = !this.view;
      const sized = fresh || view.columns !== this.view.columns || view.rows !== this.view.rows;
      const kept = view.known ? this.lines.slice(0, this.above) : [];
      this.lines = [...kept, ...view.above, ...view.screen];
      this.above = kept.length + view.above.length;
      if (this.above > ROWS_ABOVE) {
        this.lines.splice(0, this.above - ROWS_ABOVE);
        this.above = ROWS_ABOVE;
      }
      this.known = { epoch: view.epoch, above: view.start + view.above.length, tag: view.tag };
      this.view = view;
      if (fresh) for (const node of this.first) node.remove();
      if (sized) this.fit(); else this.clip();
      if (sized || !view.known || this.isWrapped()) this.showAll();
      else this.term.write(`\x1b[?25l\x1b[H\x1b[J${this.draw([...view.above, ...view.screen])}`);
    }

    showAll() {
      if (!this.view) return;
      if (this.isWrapped()) { this.showText(); return; }
      this.term.write(`\x1bc${this.draw(this.lines)}`);
    }

    draw(lines) { // only a line that the terminal itself has wrapped may go on in the next row
      let text = "";
      let goes = false;
      for (const line of lines) {
        text += (goes ? "\x1b[?7h" : "\x1b[?7l") + withoutInverse(line);
        goes = !line.endsWith("\n");
      }
      const cursor = this.view.cursor;
      const place = cursor ? `\x1b[${cursor[1] + 1};${cursor[0] + 1}H\x1b[?25h` : "\x1b[?25l";
      return text.replace(/\n$/, "") + place;
    }

    showText() {
      const end = this.text.scrollHeight - this.text.scrollTop - this.text.clientHeight < 24;
      const plain = this.lines.join("").replace(/\x1b\[[0-9;]*m/g, "").replace(/([\u2500-\u257f_=*~.·-])\1+/g, (rule, one) => one.repeat(Math.min(rule.length, LONGEST_RULE)));
      const text = plain.trimEnd();
      if (this.text.textContent !== text) this.text.textContent = text;
      if (end) this.text.scrollTop = this.text.scrollHeight;
    }

    // -- its size ------------------------------------------------------------------------
    findSize() { // px of letters with which all columns fit
      const ruler = make("span", "", "0".repeat(100));
      ruler.style.cssText = `position: absolute; visibility: hidden; font: 100px ${token("--mono")}`;
      document.body.append(ruler);
      const ratio = ruler.getBoundingClientRect().width / 10000;
      ruler.remove();
      const room = this.place.clientWidth - 40; // its edges and the bar beside it
      return this.view ? Math.floor((room / this.view.columns / ratio) * 4) / 4 : LARGEST;
    }

    isWrapped() { return this.wrapped === null ? this.findSize() < SMALLEST : this.wrapped; }

    fit() {
      if (!this.view) return;
      const size = Math.min(LARGEST, Math.max(SMALLEST, this.findSize()));
      const wrapped = this.isWrapped();
      this.text.hidden = !wrapped;
      this.box.hidden = wrapped;
      this.help.hidden = wrapped && this.canType;
      this.toggle.hidden = false;
      this.toggle.textContent = wrapped ? "Show as terminal" : "Show as text";
      if (wrapped) return;
      this.term.options.fontSize = size;
      this.term.resize(this.view.columns, this.view.rows);
      const screen = this.host.querySelector(".xterm-screen");
      this.host.style.width = `${screen.offsetWidth + 20}px`;
      this.clip();
    }

    clip() { // only as high as its text; what was written before is read in full height
      if (!this.view || !this.term || this.isWrapped()) return;
      const screen = this.lines.slice(this.above).join("").replace(/\x1b\[[0-9;?]*[a-zA-Z]/g, "").trimEnd().split("\n").length;
      const used = Math.max(screen, this.view.cursor ? this.view.cursor[1] + 1 : 0, FEWEST_ROWS);
      const { viewportY, baseY } = this.term.buffer.active;
      const rows = viewportY < baseY ? this.view.rows : Math.min(this.view.rows, Math.ceil(used / 4) * 4);
      const whole = this.host.querySelector(".xterm-screen").offsetHeight;
      this.host.style.height = `${Math.ceil((whole * rows) / this.view.rows)}px`;
    }

    // -- what is typed -------------------------------------------------------------------
    takeKey(event) { // false: the key is the browser's
      if (event.key === "F6") {
        if (event.type === "keydown") { event.preventDefault(); this.leave(event.shiftKey); }
        return false;
      }
      if (/^F\d+$/.test(event.key) || event.metaKey) return false;
      const letter = event.key.toLowerCase();
      if (event.ctrlKey && letter === "c" && (event.shiftKey || this.term.hasSelection())) {
        if (event.type === "keydown") { event.preventDefault(); document.execCommand("copy"); }
        return false;
      }
      if ((event.ctrlKey && letter === "v") || (event.shiftKey && event.key === "Insert")) return false;
      if (this.canType) return true;
      if (event.type === "keydown" && (event.key === "PageUp" || event.key === "PageDown")) {
        event.preventDefault();
        this.term.scrollPages(event.key === "PageUp" ? -1 : 1);
      }
      return false;
    }

    leave(back) {
      const form = document.getElementById("keys");
      const to = back ? document.getElementById("now-do") : form && form.querySelector("button");
      (to || document.getElementById("main")).focus();
    }

    paste(event) {
      event.preventDefault();
      event.stopImmediatePropagation();
      const text = event.clipboardData ? event.clipboardData.getData("text/plain") : "";
      if (text) this.type([{ type: "paste", value: text.replace(/\r\n?/g, "\n") }]);
    }

    type(keys) {
      if (!this.canType || !keys.length) return;
      this.term.clearSelection();
      this.term.scrollToBottom();
      this.waiting.push(...keys);
      this.flush();
    }

    async flush() { // one batch at a time, in order; one that fails is not sent again
      if (this.typing) return;
      this.typing = true;
      while (this.waiting.length) {
        const keys = joinTexts(this.waiting.splice(0, 200));
        this.number += 1;
        const problem = await this.send(keys);
        this.refused = problem;
        this.tell(problem);
        if (problem) this.waiting.length = 0;
        this.changed = Date.now();
        this.askSoon(40);
      }
      this.typing = false;
    }

    async send(keys) {
      try {
        const answer = await post(`${this.address}/type`, { batch: JSON.stringify({ keys, typist: this.typist, number: this.number }) });
        return answer.problem || "";
      } catch {
        return "The server cannot be reached. It is not known whether the last keys arrived: look before you type them again.";
      }
    }

    close() {
      this.forget.abort();
      window.clearTimeout(this.timer);
      this.term.dispose();
      shown.delete(this.place);
    }
  }

  const shown = new Map();
  const start = () => {
    const place = document.getElementById("terminal");
    if (place && !shown.has(place)) shown.set(place, new AgentTerminal(place));
  };

  // -- the buttons below: a key is pressed, and nothing else on the page changes ------------
  document.addEventListener("submit", async (event) => {
    const button = event.submitter;
    if (event.target.id !== "keys" || !button) return;
    event.preventDefault();
    const [terminal] = shown.values();
    let problem;
    try {
      const answer = await post(event.target.action, { key: button.value });
      problem = answer.problem || "";
    } catch {
      problem = "The server cannot be reached. It is not known whether the key was pressed.";
    }
    if (!terminal) return;
    terminal.refused = problem;
    terminal.tell(problem);
    terminal.changed = Date.now();
    terminal.askSoon(40);
  });

  const keybox = document.getElementById("keybox");
  if (keybox && window.matchMedia("(pointer: fine)").matches) keybox.open = true;

  start();
  new MutationObserver(start).observe(document.getElementById("main"), { childList: true, subtree: true });
})();
