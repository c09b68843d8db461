// What was done is said for a while, with a button that undoes it; `z` presses that, in this tab alone.
"use strict";
(() => {
  const place = document.querySelector("#notes");
  if (!place) return;
  const SHOWN = 10000; // ms; longer while a pointer or the focus is on it
  let timer = 0;
  const clear = () => { window.clearTimeout(timer); place.replaceChildren(); };
  const wait = () => {
    window.clearTimeout(timer);
    timer = window.setTimeout(() => { if (document.hidden || place.matches(":hover, :focus-within")) wait(); else clear(); }, SHOWN);
  };
  const show = (html) => {
    const made = document.createElement("template");
    made.innerHTML = html;
    const note = made.content.querySelector(".note");
    clear();
    if (!note) return;
    note.querySelector("[data-dismiss]").hidden = false;
    place.append(note);
    wait();
  };
  document.addEventListener("tasuki:done", (event) => show(event.detail));
  document.addEventListener("tasuki:refused", clear);
  place.addEventListener("click", (event) => { if (event.target.closest("[data-dismiss]")) clear(); });

  const address = new URL(window.location.href); // loaded again, the page says it no more
  if (!address.searchParams.has("undo")) return;
  address.searchParams.delete("undo");
  window.history.replaceState(window.history.state, "", address);
  const said = place.innerHTML;
  clear();
  window.setTimeout(() => show(said), 50); // what comes into a place is read out, what stood there is not
})();
