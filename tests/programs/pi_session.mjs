// A pi that is not there: runs tasuki's extension once, and prints what it did to it, as JSON.
// node pi_session.mjs EXTENSION '{"goal": …, "thread": …, "cwd": …, …}'
import { writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [extension, scene] = [process.argv[2], JSON.parse(process.argv[3])];
const done = [];
const ui = (whose) => ({
  notify: (message, kind) => done.push([`${whose}notify`, kind, message]),
  setStatus: (name, text) => done.push([`${whose}status`, text ?? ""]),
  setEditorText: (text) => done.push([`${whose}input`, text]),
  getEditorText: () => scene.input ?? "",
  editor: async (title, text) => {
    done.push(["editor", title, text]);
    return scene.edited === null ? undefined : (scene.edited ?? text);
  },
});
const ctx = {
  hasUI: scene.screen ?? true,
  cwd: scene.cwd,
  ui: ui(""),
  waitForIdle: async () => {},
  getContextUsage: () => ({ percent: scene.used }),
  sessionManager: { getSessionFile: () => scene.thread, getSessionId: () => "id" },
  switchSession: async (path, options) => {
    done.push(["switch", path]);
    if (scene.switch === "throws") throw new Error("no such session");
    if (scene.switch === "cancelled") return { cancelled: true };
    if (scene.switch !== "old") await options.withSession({ ui: ui("fresh ") });
    return { cancelled: false };
  },
};
const commands = {};
const events = {};
const pi = {
  registerCommand: (name, command) => (commands[name] = command.handler),
  appendEntry: (kind, entry) => done.push(["entry", kind, entry]),
  on: (name, handler) => ((events[name] ??= []).push(handler)),
};
(await import(pathToFileURL(extension).href)).default(pi);
process.on("exit", () => writeFileSync(scene.done, JSON.stringify(done)));
for (const [name, event] of scene.events ?? []) for (const handler of events[name] ?? []) await handler(event, ctx);
if (scene.goal !== undefined) await Object.values(commands)[0](scene.goal, ctx);
