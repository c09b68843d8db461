// A thread that grows: a reader at its end stays there, another one is told. j and k go through what a search found.
"use strict";
(() => {
  const $ = (selector) => document.querySelector(selector);
  if (!$("#entries")) return;

  const NEAR = 120; // px around the end that count as being there
  const newest = () => Number($("#entries").dataset.newest);
  const isAtEnd = () => {
    const top = $("#thread-end").getBoundingClientRect().top;
    return top >= 0 && top <= window.innerHeight + NEAR;
  };
  const showEnd = () => $("#thread-end").scrollIntoView({ block: "end" });

  // -- the end ----------------------------------------------------------------------------
  let seen = newest();
  let atEnd = isAtEnd();
  const tell = () => {
    const place = $("#news");
    const count = newest() - seen;
    if (count <= 0) { place.replaceChildren(); return; }
    const link = place.firstElementChild || document.createElement("a");
    const { start, end } = $("#entries").dataset;
    link.className = "btn";
    link.href = start ? "#thread-end" : `${end}#thread-end`;
    link.textContent = `${count} new entr${count === 1 ? "y" : "ies"}`;
    if (!link.isConnected) place.append(link);
  };
  const settle = () => { // what is read keeps its place: its address begins where the page does
    const { start, end } = $("#entries").dataset;
    if (!start) return;
    const wanted = atEnd ? end : start;
    if (wanted !== window.location.pathname + window.location.search) window.history.replaceState(null, "", wanted);
  };
  const look = () => {
    const now = isAtEnd();
    if (now && $("#entries").dataset.start) { seen = newest(); tell(); }
    if (now === atEnd) return;
    atEnd = now;
    settle();
  };
  document.addEventListener("scroll", look, { passive: true });
  window.addEventListener("resize", look, { passive: true });
  document.addEventListener("tasuki:shown", () => {
    if (!$("#entries")) return;
    if (atEnd && $("#entries").dataset.start) { seen = newest(); showEnd(); }
    tell();
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest("#news a[href='#thread-end']") || event.metaKey || event.ctrlKey) return;
    event.preventDefault();
    showEnd();
  });

  // -- what a search found ------------------------------------------------------------------
  const LINKS = { j: "#match-after", k: "#match-before" };
  const areOff = () => { try { return window.localStorage.getItem("tasuki-single-keys-off") === "yes"; } catch { return false; } };
  document.addEventListener("keydown", (event) => {
    const link = LINKS[event.key] && $(LINKS[event.key]);
    const isTyping = event.target.matches("input:not([type=checkbox], [type=radio]), textarea, select");
    if (!link || isTyping || event.ctrlKey || event.metaKey || event.altKey || $("#form").open || areOff()) return;
    event.preventDefault();
    link.click();
  }, true);
})();
