// Tells tasuki's server what an agent of its fleet does: when it starts, works, ends its turn. tasuki fleet.
// Written by `tasuki install --fleet`; `tasuki uninstall` removes it. Seen: pi 1.5, oh-my-pi 18.2.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";

const HOOK: string = "hook.sh";
const HARNESS: string = "pi";
const SETTLES: boolean = true; // the program says when a run is really over; otherwise only its end is known
const ANSWER_MILLISECONDS = 1500; // the script itself ends within about a second
const MAX_OUTPUT = 1 << 20;

/** Runs the script with an event on its standard input; what it prints. Never throws. */
function run(payload: string): Promise<string> {
  return new Promise((resolve) => {
    let stdout = "";
    try {
      if (!existsSync(HOOK)) return resolve("");
      const child = spawn("sh", [HOOK, HARNESS], { stdio: ["pipe", "pipe", "ignore"], detached: true });
      child.stdout.setEncoding("utf8").on("data", (part: string) => stdout.length < MAX_OUTPUT && (stdout += part));
      child.stdin.on("error", () => {});
      child.on("error", () => resolve(""));
      child.on("close", () => resolve(stdout));
      child.stdin.end(payload);
      child.unref();
    } catch {
      resolve("");
    }
  });
}

/** What a promise gives, or nothing where that takes too long. */
function within(promised: Promise<string>): Promise<string> {
  return new Promise((resolve) => {
    const late = setTimeout(() => resolve(""), ANSWER_MILLISECONDS);
    void promised.then((text) => (clearTimeout(late), resolve(text)));
  });
}

/** The text of a message: a string, or the text parts of a list. */
function words(content: any): string {
  if (!Array.isArray(content)) return typeof content === "string" ? content : "";
  return content.map((part) => (part?.type === "text" ? part.text : "")).join("\n").trim();
}

export default function (pi: any) {
  let last: Promise<string> = Promise.resolve(""); // events are reported one by one, in order
  let turn = "";
  let ended: any; // the last message of the run, as far as it has come

  function tell(event: string, ctx: any, more: object = {}): Promise<string> {
    if (!ctx.hasUI) return Promise.resolve(""); // a sub-agent, or a run without a screen
    const usage = ctx.getContextUsage?.();
    const payload = JSON.stringify({
      event,
      session: ctx.sessionManager.getSessionId(),
      path: ctx.sessionManager.getSessionFile() ?? "",
      cwd: ctx.cwd,
      model: ctx.model ? `${ctx.model.provider}/${ctx.model.id}` : "",
      used: usage?.percent ?? null,
      tokens: usage?.tokens ?? null,
      window: usage?.contextWindow ?? null,
      ...more,
    });
    last = last.then(() => run(payload));
    return last;
  }

  const on = (name: string, handler: (event: any, ctx: any) => any) =>
    pi.on(name, async (event: any, ctx: any) => {
      try {
        return await handler(event, ctx);
      } catch {} // a failure of tasuki must not affect the program
    });

  // The server's answer at a session's start goes before the first prompt, so it is awaited where
  // tasuki started the program.
  async function started(reason: string, previous: string, ctx: any): Promise<void> {
    const answer = tell("started", ctx, { reason, previous });
    if (!process.env.TASUKI_AGENT_TOKEN || reason === "reload") return;
    const text = (await within(answer)).trim();
    if (text) await pi.sendMessage({ customType: "tasuki-skill", content: text, display: true }, { triggerTurn: false });
  }
  for (const name of ["session_start", "session_switch"]) {
    on(name, (event, ctx) => started(event?.reason ?? "startup", event?.previousSessionFile ?? "", ctx));
  }

  on("before_agent_start", (event, ctx) => {
    turn = `${process.pid}-${Date.now().toString(36)}`;
    if (event?.messageType !== "custom") void tell("prompt", ctx, { text: event?.prompt ?? "", turn });
  });

  // A prompt that is typed while it works joins the run.
  on("input", (event, ctx) => {
    if (ctx.isIdle?.() === false && !event?.text?.startsWith("/")) void tell("prompt", ctx, { text: event?.text ?? "", turn });
  });

  on("agent_start", (_event, ctx) => void tell("busy", ctx));
  on("agent_end", (event, ctx) => {
    ended = event?.messages?.findLast?.((message: any) => message?.role === "assistant");
    if (!SETTLES) idle(event, ctx);
  });
  on("agent_settled", (event, ctx) => {
    if (SETTLES) idle(event, ctx);
  });

  function idle(event: any, ctx: any): void {
    const aborted = Boolean(event?.aborted) || ended?.stopReason === "aborted";
    void tell("idle", ctx, { text: words(ended?.content) || ended?.errorMessage || "", turn, aborted, error: ended?.stopReason === "error" ? ended.errorMessage : "" });
    ended = undefined;
  }

  on("ui_prompt_start", (event, ctx) => {
    if (ctx.isIdle?.() === false) void tell("waiting", ctx, { text: event?.title ?? "" });
  });
  on("ui_prompt_end", (_event, ctx) => {
    if (ctx.isIdle?.() === false) void tell("busy", ctx);
  });

  const why = (event: any) => ({ reason: event?.reason === "manual" ? "manual" : "auto" });
  on("session_before_compact", (event, ctx) => void tell("compacting", ctx, why(event)));
  on("session_compact", (event, ctx) => {
    void tell("compacted", ctx, why(event));
    void started("compact", "", ctx).catch(() => {}); // what was said at the start may be gone
  });
  on("session_compact_failed", (event, ctx) => void tell("compacted", ctx, why(event)));

  on("session_shutdown", async (event, ctx) => {
    if (event?.reason !== "reload") await within(tell("ended", ctx, { reason: event?.reason ?? "quit" }));
  });
}
