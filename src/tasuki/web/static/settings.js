// Addresses such as /settings#hooks, from when the settings were one page, lead to the section that has it.
"use strict";
(() => {
  const name = window.location.hash.slice(1);
  if (!name || document.getElementById(name)) return;
  const link = [...document.querySelectorAll("#sections a[data-anchors]")].find((one) => one.dataset.anchors.split(" ").includes(name));
  if (link) window.location.replace(link.href);
})();
