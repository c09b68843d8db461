// An opencode that is not there: runs tasuki's plugin once, and prints what it did to it, as JSON.
// node opencode_session.mjs PLUGIN '{"command": …, "goal": …, "events": […], …}'
import { writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [plugin, scene] = [process.argv[2], JSON.parse(process.argv[3])];
const done = [];
const showToast = ({ body }) => {
  if (scene.screen === false) throw new Error("no screen");
  done.push(["toast", body.message]);
  return Promise.resolve();
};
const { TasukiHandoff } = await import(pathToFileURL(plugin).href);
const hooks = await TasukiHandoff({ client: { tui: { showToast } }, directory: scene.cwd });
for (const event of scene.events ?? []) await hooks.event({ event });
if (scene.command) {
  try {
    await hooks["command.execute.before"]({ command: scene.command, sessionID: "ses_1", arguments: scene.goal });
    done.push(["passed"]);
  } catch (error) {
    done.push(["stopped", error.message]);
  }
}
writeFileSync(scene.done, JSON.stringify(done));
