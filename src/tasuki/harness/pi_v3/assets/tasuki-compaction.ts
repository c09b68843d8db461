// tasuki at a compaction: the summary keeps the user's rules and the state of the work, checked against the thread.
// Written by `tasuki install --keep`; `tasuki uninstall --keep` removes it. Seen: pi 1.5, oh-my-pi 18.2.
import { spawn, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";

const TASUKI: string[] = ["tasuki"];
const HARNESS: string = "pi";
const REPLACES: boolean = true; // whether tasuki is asked for words, or a summary, before the program makes its own
const WAITS: boolean = true; // whether the program waits until its compaction's listeners are done
const SECONDS = 5; // the program waits as long as that for an answer, and then goes on by itself
const MAX_OUTPUT = 1 << 20;
const TYPE = "tasuki-compaction";

/** The event as tasuki reads it; nothing where there is no thread or no tasuki. */
function describe(event: string, ctx: any, more: object): string {
  const path = ctx.sessionManager.getSessionFile();
  if (!path || !existsSync(path) || !existsSync(TASUKI[0])) return "";
  return JSON.stringify({ event, path, thread: ctx.sessionManager.getSessionId(), cwd: ctx.cwd, ...more });
}

/** What tasuki printed, as an object; an empty one where it printed something else. */
function parse(stdout: string): any {
  try {
    return JSON.parse(stdout) ?? {};
  } catch {
    return {};
  }
}

/** What tasuki answers to an event; an empty object where anything goes wrong. Never throws. */
function ask(event: string, ctx: any, more: object): Promise<any> {
  return new Promise((resolve) => {
    let stdout = "";
    try {
      const payload = describe(event, ctx, more);
      if (!payload) return resolve({});
      const child = spawn(TASUKI[0], [...TASUKI.slice(1), "hook", HARNESS], { stdio: ["pipe", "pipe", "ignore"] });
      const late = setTimeout(() => (child.kill("SIGKILL"), resolve({})), SECONDS * 1000);
      child.stdout.setEncoding("utf8").on("data", (part: string) => stdout.length < MAX_OUTPUT && (stdout += part));
      child.stdin.on("error", () => {}); // it may end before it has read everything
      child.on("error", () => (clearTimeout(late), resolve({})));
      child.on("close", () => (clearTimeout(late), resolve(parse(stdout))));
      child.stdin.end(payload);
    } catch {
      resolve({});
    }
  });
}

/** The same at once, for a program that would go on meanwhile. */
function askNow(event: string, ctx: any): any {
  try {
    const input = describe(event, ctx, {});
    if (!input) return {};
    const options = { input, encoding: "utf8" as const, timeout: SECONDS * 1000, maxBuffer: MAX_OUTPUT };
    return parse(spawnSync(TASUKI[0], [...TASUKI.slice(1), "hook", HARNESS], options).stdout ?? "");
  } catch {
    return {};
  }
}

export default function (pi: any) {
  if (REPLACES) {
    pi.on("session_before_compact", async (event: any, ctx: any) => {
      const prepared = event?.preparation;
      if (!prepared?.firstKeptEntryId) return;
      const answer = await ask("compacting", ctx, { instructions: event.customInstructions ?? "" });
      if (event.signal?.aborted) return;
      if (typeof answer.summary === "string" && answer.summary.trim()) {
        const { firstKeptEntryId, tokensBefore } = prepared;
        return { compaction: { summary: answer.summary, firstKeptEntryId, tokensBefore, details: {} } };
      }
      if (typeof answer.keep !== "string" || !answer.keep) return;
      // The words go into the request for the summary alone, behind the last message that is summarized.
      const messages = prepared.messagesToSummarize?.length ? prepared.messagesToSummarize : prepared.turnPrefixMessages;
      if (Array.isArray(messages) && messages.length) {
        messages.push({ role: "user", content: [{ type: "text", text: answer.keep }], timestamp: Date.now() });
      }
    });
  }

  // `steer` alone is in time for the very next request, also in the middle of a turn; it begins none.
  pi.on("session_compact", async (_event: any, ctx: any) => {
    const { block } = WAITS ? await ask("compacted", ctx, {}) : askNow("compacted", ctx);
    if (typeof block === "string" && block.trim()) {
      await pi.sendMessage({ customType: TYPE, content: block, display: true }, { deliverAs: "steer" });
    }
  });
}
