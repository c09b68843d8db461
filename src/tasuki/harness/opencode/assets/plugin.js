// tasuki in opencode: /handoff <goal>, and a suggestion when the context fills up.
// Written by `tasuki install`; `tasuki uninstall opencode` removes it. Seen: opencode 1.18.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const TASUKI = ["tasuki"];
const SHOWN = 15000; // milliseconds that a message stays
const HANDOFF_SECONDS = 300;
const TURN_SECONDS = 60;
const MAX_OUTPUT = 1 << 20;
const GONE = 127; // what a shell's exit code is where there is no such program

/** Whether /handoff is a command of the user's own, which is left alone. */
function isOwn(directory) {
  const folders = [fileURLToPath(new URL("..", import.meta.url)), `${directory}/.opencode`];
  return folders.some((folder) => ["command", "commands"].some((name) => {
    try {
      return !readFileSync(`${folder}/${name}/handoff.md`, "utf8").includes("tasuki install");
    } catch {
      return false;
    }
  }));
}

/** What tasuki says to a call of a hook: its exit code and its words. Never throws. */
function tasuki(payload, seconds) {
  return new Promise((resolve) => {
    let said = "";
    const failed = (code, why) => resolve({ code, said: `${why}. In a terminal: tasuki doctor opencode` });
    try {
      const child = spawn(TASUKI[0], [...TASUKI.slice(1), "hook", "opencode"], { stdio: ["pipe", "pipe", "ignore"] });
      const late = setTimeout(() => {
        child.kill("SIGKILL");
        failed(124, `tasuki did not end within ${seconds} seconds`);
      }, seconds * 1000);
      child.stdout.setEncoding("utf8").on("data", (part) => said.length < MAX_OUTPUT && (said += part));
      child.stdin.on("error", () => {}); // it may end before it has read everything
      child.on("error", (error) => {
        clearTimeout(late);
        if (error.code === "ENOENT") resolve({ code: GONE, said: "" });
        else failed(126, `tasuki cannot be run: ${error.message}`);
      });
      child.on("close", (code, signal) => {
        clearTimeout(late);
        if (signal) failed(1, `tasuki was ended by ${signal}`);
        else if (code) failed(code, `tasuki ended with status ${code}`);
        else resolve({ code: 0, said: said.trim() });
      });
      child.stdin.end(JSON.stringify(payload));
    } catch (error) {
      failed(126, `tasuki cannot be run: ${error.message}`);
    }
  });
}

export const TasukiHandoff = async ({ client, directory }) => {
  const show = async (message) => {
    try {
      await client.tui.showToast({ body: { title: "tasuki", message, variant: "info", duration: SHOWN } });
    } catch {} // there is no screen
  };
  return {
    // An error thrown here ends the command before the model sees it; its text is not shown.
    "command.execute.before": async (input) => {
      if (input.command !== "handoff" || isOwn(directory)) return;
      const call = { event: "handoff", session: input.sessionID, cwd: directory, goal: input.arguments ?? "" };
      const { code, said } = await tasuki(call, HANDOFF_SECONDS);
      if (code === GONE) return show("tasuki is not installed any more. To remove its parts, install it again and run: tasuki uninstall opencode");
      const told = said || "tasuki said nothing. In a terminal: tasuki doctor opencode";
      await show(told);
      throw new Error(told);
    },
    event: async ({ event }) => {
      if (event?.type !== "session.idle") return;
      const { code, said } = await tasuki({ event: "turn", session: event.properties?.sessionID, cwd: directory }, TURN_SECONDS);
      if (code === 0 && said) await show(said);
    },
  };
};
