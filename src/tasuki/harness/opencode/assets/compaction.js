// tasuki at a compaction: the summary keeps the user's rules and the state of the work, checked against the thread.
// Written by `tasuki install --keep`; `tasuki uninstall --keep` removes it. Seen: opencode 1.18.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";

const TASUKI = ["tasuki"];
const SECONDS = 5; // opencode waits as long as that for an answer, and then goes on by itself
const MAX_OUTPUT = 1 << 20;

/** What tasuki answers to an event, as an object; an empty one where anything goes wrong. Never throws. */
function ask(payload) {
  return new Promise((resolve) => {
    let stdout = "";
    const done = () => {
      try {
        resolve(JSON.parse(stdout) ?? {});
      } catch {
        resolve({});
      }
    };
    try {
      if (!existsSync(TASUKI[0])) return resolve({});
      const child = spawn(TASUKI[0], [...TASUKI.slice(1), "hook", "opencode"], { stdio: ["pipe", "pipe", "ignore"] });
      const late = setTimeout(() => (child.kill("SIGKILL"), resolve({})), SECONDS * 1000);
      child.stdout.setEncoding("utf8").on("data", (part) => stdout.length < MAX_OUTPUT && (stdout += part));
      child.stdin.on("error", () => {}); // it may end before it has read everything
      child.on("error", () => (clearTimeout(late), resolve({})));
      child.on("close", () => (clearTimeout(late), done()));
      child.stdin.end(JSON.stringify(payload));
    } catch {
      resolve({});
    }
  });
}

export const TasukiCompaction = async ({ client, directory }) => {
  /** Whether a message is the summary of a compaction; other messages hold an object there. */
  const isSummary = async (id, messageID) => {
    try {
      const { data } = await client.session.message({ path: { id, messageID } });
      return data?.info?.role === "assistant" && data.info.summary === true;
    } catch {
      return false;
    }
  };
  return {
    "experimental.session.compacting": async (input, output) => {
      const { keep } = await ask({ event: "compacting", session: input.sessionID, cwd: directory });
      if (typeof keep === "string" && keep && Array.isArray(output.context)) output.context.push(keep);
    },
    // The text is stored and sent as it is when this returns.
    "experimental.text.complete": async (input, output) => {
      if (!(await isSummary(input.sessionID, input.messageID))) return;
      const call = { event: "compacted", session: input.sessionID, cwd: directory };
      const { block, summary } = await ask({ ...call, text: String(output.text ?? "") });
      if (typeof summary === "string" && summary.trim()) output.text = summary;
      else if (typeof block === "string" && block.trim()) output.text = `${output.text}\n\n${block}`;
    },
  };
};
