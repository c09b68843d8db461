// tasuki in pi (/handoff <goal>) and oh-my-pi (/tasuki <goal>), and a suggestion when the context fills up.
// Written by `tasuki install`; `tasuki uninstall` removes it. Seen: pi 0.73 to 1.5, oh-my-pi 18.2.
import { spawn } from "node:child_process";
import { existsSync, writeSync } from "node:fs";

const TASUKI: string[] = ["tasuki"];
const HARNESS: string = "pi";
const COMMAND: string = "handoff";
const LAST_SKILL = "handoff:last-skill";
const TOLD_AFTER = 150; // milliseconds: the program overwrites messages shown during the switch
const WORTH_ASKING = 10; // percent of the context: below it tasuki is not started to be asked
const HANDOFF_SECONDS = 600; // an author may write for as long
const TURN_SECONDS = 60;
const MAX_OUTPUT = 16 << 20;
const GONE = `tasuki is not installed any more. To remove its parts, install it again and run: tasuki uninstall ${HARNESS}`;
const PROGRESS = "progress: "; // what such a line of tasuki's standard error begins with

type Ran = { code: number; stdout: string; stderr: string };

/** Runs tasuki with a text on its standard input; `phase` gets what it is doing. Never throws. */
function tasuki(args: string[], input: string, cwd: string, seconds = HANDOFF_SECONDS, phase?: (now: string) => void): Promise<Ran> {
  return new Promise((resolve) => {
    let stdout = "";
    let stderr = "";
    let begun = ""; // a line of standard error that is not whole yet
    const told = (part: string) => {
      const lines = (begun + part).split("\n");
      begun = lines.pop() ?? "";
      for (const line of lines) {
        if (line.startsWith(PROGRESS)) phase?.(line.slice(PROGRESS.length));
        else if (stderr.length < MAX_OUTPUT) stderr += `${line}\n`;
      }
    };
    const failed = (code: number, why: string) => resolve({ code, stdout, stderr: `${why}. In a terminal: tasuki doctor` });
    try {
      const command = [...TASUKI.slice(1), ...args];
      const env = { ...process.env, ...(phase ? { TASUKI_PROGRESS: "lines" } : {}) };
      const child = spawn(TASUKI[0], command, { cwd: existsSync(cwd) ? cwd : undefined, env, stdio: ["pipe", "pipe", "pipe"] });
      const late = setTimeout(() => {
        child.kill("SIGKILL");
        failed(124, `tasuki did not end within ${seconds} seconds`);
      }, seconds * 1000);
      child.stdout.setEncoding("utf8").on("data", (part: string) => stdout.length < MAX_OUTPUT && (stdout += part));
      child.stderr.setEncoding("utf8").on("data", told);
      child.stdin.on("error", () => {}); // it may end before it has read everything
      child.on("error", (error: any) => {
        clearTimeout(late);
        if (error.code === "ENOENT") resolve({ code: 127, stdout, stderr: GONE });
        else failed(126, `tasuki cannot be run: ${error.message}`);
      });
      child.on("close", (code) => (clearTimeout(late), resolve({ code: code ?? 1, stdout, stderr: stderr + begun })));
      child.stdin.end(input);
    } catch (error: any) {
      failed(126, `tasuki cannot be run: ${error.message}`);
    }
  });
}

/** What tasuki said on standard error, without its name in front. */
function said(ran: Ran): string {
  return ran.stderr.trim().replace(/^tasuki: /gm, "") || `tasuki ended with status ${ran.code}. In a terminal: tasuki doctor`;
}

/** The JSON object that tasuki printed, with these texts in it. Throws a sentence. */
function printed(ran: Ran, texts: string[]): any {
  try {
    const found = JSON.parse(ran.stdout);
    if (texts.every((name) => typeof found[name] === "string")) return found;
  } catch {}
  throw new Error(`${TASUKI.join(" ")} gave an unexpected answer. In a terminal: tasuki doctor`);
}

export default function (pi: any) {
  pi.registerCommand(COMMAND, {
    description: `Hand this work to a fresh session: /${COMMAND} <goal>`,
    handler: async (args: string, ctx: any) => {
      try {
        await handOff(args ?? "", ctx);
      } catch (error: any) {
        ctx.ui.notify(`Handoff failed: ${error?.message ?? error}`, "error");
      }
    },
  });

  // The skill that was used last goes along. pi shows the extension what was typed, before it expands it.
  pi.on("input", (event: any) => {
    const skill = /^\/skill:([\w.:-]+)/.exec(event?.text ?? "");
    if (skill) pi.appendEntry(LAST_SKILL, { skill: skill[1] });
  });

  for (const ended of ["agent_settled", "agent_end"]) {
    pi.on(ended, (event: any, ctx: any) => void suggest(ended, event, ctx).catch(() => {}));
  }

  let settles = false; // pi 1.x says when a run is really over; older ones and oh-my-pi do not
  async function suggest(ended: string, event: any, ctx: any): Promise<void> {
    settles ||= ended === "agent_settled";
    if ((ended === "agent_end" && settles) || event?.aborted || !ctx.hasUI) return;
    const used = ctx.getContextUsage?.()?.percent;
    const path = ctx.sessionManager.getSessionFile();
    if (typeof used !== "number" || used < WORTH_ASKING || !path) return;
    const ui = ctx.ui;
    const payload = { event: "turn", path, thread: ctx.sessionManager.getSessionId(), cwd: ctx.cwd, used };
    const ran = await tasuki(["hook", HARNESS], JSON.stringify(payload), ctx.cwd, TURN_SECONDS);
    if (ran.code === 0 && ran.stdout.trim()) ui.notify(ran.stdout.trim(), "info");
  }
}

async function handOff(goal: string, ctx: any): Promise<void> {
  await ctx.waitForIdle?.();
  const path = ctx.sessionManager.getSessionFile();
  if (!path || !existsSync(path)) {
    ctx.ui.notify("Nothing to hand off (no messages yet)", "warning");
    return;
  }
  const phase = (now: string) => ctx.ui.setStatus?.("tasuki", now);
  phase("Analyzing conversation...");
  const made = await tasuki(["handoff", "--from", path, "--to", HARNESS, "--goal-file", "-", "--json"], goal, ctx.cwd, HANDOFF_SECONDS, phase);
  ctx.ui.setStatus?.("tasuki", undefined);
  if (made.code !== 0) {
    ctx.ui.notify(said(made), made.code === 3 ? "warning" : "error");
    if (ctx.hasUI && !ctx.ui.getEditorText?.()) ctx.ui.setEditorText(`/${COMMAND} ${goal}`);
    return;
  }
  const draft = printed(made, ["id", "brief"]);
  if (!ctx.hasUI) {
    // Without a screen standard output is the program's own, and it would print its last answer again.
    writeWhole(`${draft.brief}\n`);
    process.exit(0);
  }
  for (const warning of draft.warnings ?? []) ctx.ui.notify(warning, "warning");
  const id: string = draft.id.slice(0, 8);
  const edited = await ctx.ui.editor(`Handoff ${id}: look it over. Nothing is sent yet.`, draft.brief);
  if (!edited?.trim()) {
    const why = edited === undefined ? "Handoff cancelled." : "The brief is empty, so nothing was started.";
    ctx.ui.notify(`${why} The draft is kept: tasuki start ${id}`, "info");
    return;
  }
  await ctx.waitForIdle?.(); // a turn that began meanwhile is not cut off
  await goOver(id, edited === draft.brief ? "" : edited, ctx);
}

/** Writes to standard output, which may be a pipe that is full. */
function writeWhole(text: string): void {
  for (let rest = Buffer.from(text); rest.length; ) {
    try {
      rest = rest.subarray(writeSync(1, rest));
    } catch (error: any) {
      if (error.code !== "EAGAIN") throw error;
    }
  }
}

/** Has tasuki write the successor's session, and opens it with the goal in the input, unsent. */
async function goOver(id: string, edited: string, ctx: any): Promise<void> {
  const revised = edited ? ["--brief-file", "-"] : [];
  const ran = await tasuki(["start", id, "--to", HARNESS, "--prepare", ...revised], edited, ctx.cwd);
  if (ran.code !== 0) throw new Error(`${said(ran)}\nThe draft is kept: tasuki start ${id}`);
  const ready = printed(ran, ["id", "thread", "text"]);
  const later = `Go there later: /resume, or tasuki start ${ready.id.slice(0, 8)}`;
  const told = ran.stderr.trim() && said(ran);
  let filled = false;
  const fill = (ui: any) => {
    filled = true;
    ui.setEditorText(ready.text);
    setTimeout(() => {
      if (told) ui.notify(told, "warning");
      ui.notify("New session started with handoff context", "info");
    }, TOLD_AFTER);
  };
  const ui = ctx.ui;
  try {
    const result = await ctx.switchSession(ready.thread, { withSession: async (fresh: any) => fill(fresh.ui) });
    if (result?.cancelled) ui.notify(`Handoff cancelled. ${later}`, "warning");
    else if (!filled) fill(ui); // oh-my-pi has no withSession
  } catch (error: any) {
    ui.notify(`Handoff failed: ${error?.message ?? error}\n${later}`, "error");
  }
}
