// Firefox goes through the dashboard. After each line that it prints it waits for one: `node firefox.mjs PUPPETEER FIREFOX LINK`
import readline from "node:readline";

const [puppeteer, executablePath, link] = process.argv.slice(2);
const { default: driver } = await import(puppeteer);
const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const say = async (what) => { process.stdout.write(`${JSON.stringify(what)}\n`); await lines.next(); };
const { origin } = new URL(link);
const timeout = 60000;
const faults = [];
const watch = (page) => {
  page.setDefaultTimeout(timeout);
  page.on("console", (message) => { if (message.type() === "error") faults.push(message.text()); });
  page.on("pageerror", (error) => faults.push(error.message));
  return page;
};
const isLive = (page) => page.waitForFunction(() => document.querySelector("#live-word")?.textContent === "Live" && !document.querySelector("#live").hidden);
const shows = (page, text) => page.waitForFunction((words) => document.querySelector("#cards-needs").textContent.includes(words), {}, text);

const browser = await driver.launch({ browser: "firefox", executablePath, headless: true });
try {
  const page = watch(await browser.newPage());
  await page.setViewport({ width: 1280, height: 900 });
  await page.goto(link);
  await page.waitForFunction(() => window.location.pathname === "/");
  await isLive(page);
  await say("live");
  await shows(page, "Which database?");
  await page.waitForFunction(() => document.title.startsWith("(1)"));
  await say(await page.title());

  const tabs = [page];
  while (tabs.length < 8) {
    const tab = watch(await browser.newPage());
    await tab.goto(`${origin}/?look=list`);
    await isLive(tab);
    tabs.push(tab);
  }
  await say("tabs");
  for (const tab of tabs) { await tab.bringToFront(); await shows(tab, "Which colour?"); }
  for (const tab of tabs.slice(1)) await tab.close();
  await page.bringToFront();
  await say("all");

  await page.keyboard.press("j");
  const cursor = await page.evaluate(() => document.querySelector("[data-cursor]").id);
  await page.keyboard.down("Control");
  await page.keyboard.press("k");
  await page.keyboard.up("Control");
  await page.waitForSelector("#palette");
  await page.type("#palette", "con-17");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => window.location.pathname === "/agents/17");
  await say(cursor);

  const wide = [];
  for (const width of [1280, 380, 320]) {
    await page.setViewport({ width, height: 900 });
    for (const path of ["/", "/?look=list", "/agents/17", "/agents/new", "/handoffs", "/lineage", "/threads", "/personas", "/figures", "/alerts", "/settings"]) {
      await page.goto(origin + path);
      if (await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth)) wide.push(`${width} ${path}`);
    }
  }
  await say(wide);
  await say(faults);
} finally {
  await browser.close();
}
process.exit(0);
