// Tells tasuki's server what an agent of its fleet does: when it starts, works, ends its turn. tasuki fleet.
// Written by `tasuki install --fleet`; `tasuki uninstall` removes it. Seen: opencode 1.18.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";

const HOOK = "hook.sh";
const END_MILLISECONDS = 1500; // the script itself ends within about a second

/** Runs the script with an event on its standard input. Never throws. */
function run(payload) {
  return new Promise((resolve) => {
    try {
      if (!existsSync(HOOK)) return resolve();
      const child = spawn("sh", [HOOK, "opencode"], { stdio: ["pipe", "ignore", "ignore"], detached: true });
      child.stdin.on("error", () => {});
      child.on("error", () => resolve());
      child.on("close", () => resolve());
      child.stdin.end(payload);
      child.unref();
    } catch {
      resolve();
    }
  });
}

export const TasukiFleet = async ({ client, directory }) => {
  let last = Promise.resolve(); // events are reported one by one, in order
  let current; // the session that was prompted last
  const sessions = new Map(); // sessions of the user: what is known about each
  const parents = new Map(); // sub-agents: the session that began each
  const windows = new Map(); // tokens that each model takes, as far as that was asked

  function tell(event, session, more = {}) {
    if (!session) return last;
    const { model = "", tokens = null, window = null } = sessions.get(session) ?? {};
    const payload = JSON.stringify({ event, session, cwd: directory, model, tokens, window, ...more });
    last = last.then(() => run(payload));
    return last;
  }

  /** A session of the user's own; its start is reported once, also where the program only continues it. */
  function known(session, source) {
    if (!sessions.has(session)) {
      sessions.set(session, { text: "", turn: "", error: undefined });
      void tell("started", session, { source: current ? "new" : source, previous: current ?? "" });
    }
    return sessions.get(session);
  }

  const root = (session) => (parents.has(session) ? root(parents.get(session)) : session);
  const named = (model) => (model?.providerID ? `${model.providerID}/${model.modelID ?? model.id}` : "");

  async function look(state) {
    if (!state.model || windows.has(state.model)) return;
    windows.set(state.model, null);
    const { data } = await client.config.providers();
    for (const provider of data?.providers ?? []) {
      for (const [id, model] of Object.entries(provider.models ?? {})) {
        windows.set(`${provider.id}/${id}`, model?.limit?.context || null);
      }
    }
  }

  const events = {
    "session.created": ({ sessionID, info }) => {
      if (!sessionID) return;
      if (!info?.parentID) return void known(sessionID, "startup");
      parents.set(sessionID, info.parentID);
      void tell("child_started", root(sessionID), { child: sessionID });
    },
    "message.updated": ({ sessionID, info }) => {
      const state = sessions.get(sessionID);
      const used = info?.tokens;
      if (!state || info.role !== "assistant" || info.summary || !used?.output) return;
      state.tokens = used.input + used.output + (used.reasoning ?? 0) + (used.cache?.read ?? 0) + (used.cache?.write ?? 0);
    },
    "message.part.updated": ({ part }) => {
      const state = sessions.get(part?.sessionID);
      if (state && part.type === "text" && part.time?.end) state.text = part.text ?? "";
    },
    "session.error": ({ sessionID, error }) => {
      const state = sessions.get(sessionID);
      if (state) state.error = error;
    },
    "session.idle": ({ sessionID }) => {
      if (parents.has(sessionID)) return void tell("child_ended", root(sessionID), { child: sessionID });
      const state = sessions.get(sessionID);
      if (!state?.turn) return; // the second of two, or after a compaction
      const { turn, error } = state;
      const aborted = error?.name === "MessageAbortedError";
      const text = aborted ? state.text : error?.data?.message || state.text;
      Object.assign(state, { text: "", turn: "", error: undefined, window: windows.get(state.model) ?? null });
      const failure = aborted || !error ? "" : error.data?.responseBody || error.data?.message || error.name;
      void tell("idle", sessionID, { text, turn, aborted, error: failure });
    },
    "permission.asked": ({ sessionID, permission }) =>
      void tell("waiting", root(sessionID), { text: `permission for ${permission ?? "a tool"}` }),
    "permission.replied": ({ sessionID }) => void tell("busy", root(sessionID)),
    "question.asked": ({ sessionID, questions }) =>
      void tell("waiting", root(sessionID), { text: questions?.[0]?.question ?? "a question" }),
    "question.replied": ({ sessionID }) => void tell("busy", root(sessionID)),
    "question.rejected": ({ sessionID }) => void tell("busy", root(sessionID)),
    "session.compacted": ({ sessionID }) => {
      const state = sessions.get(sessionID);
      if (!state) return;
      state.tokens = null;
      void tell("compacted", sessionID, { source: state.turn ? "auto" : "manual" });
    },
  };

  return {
    event: async ({ event }) => {
      try {
        if (event?.properties) events[event.type]?.(event.properties);
      } catch {} // a failure of tasuki must not affect the program
    },
    "chat.message": async (input, output) => {
      try {
        const session = input.sessionID;
        if (!session || parents.has(session)) return;
        const state = known(session, "resume");
        current = session;
        state.model = named(input.model) || named(output.message?.model) || state.model;
        state.turn ||= output.message?.id ?? ""; // what is typed while it works joins the turn
        const said = output.parts.filter((part) => part.type === "text" && !part.synthetic);
        void tell("prompt", session, { text: said.map((part) => part.text).join("\n"), turn: state.turn });
        void look(state).catch(() => {});
      } catch {}
    },
    "experimental.session.compacting": async ({ sessionID }) => {
      const state = sessions.get(sessionID);
      if (state) void tell("compacting", sessionID, { source: state.turn ? "auto" : "manual" });
    },
    dispose: async () => {
      if (!current) return;
      const late = new Promise((resolve) => setTimeout(resolve, END_MILLISECONDS));
      await Promise.race([tell("ended", current, { reason: "exit" }), late]);
    },
  };
};
