// Keeps #live up to date: asks for it again every few seconds, and changes what has changed, in place.
// It stops while the tab is hidden, when somebody stops it, and after half an hour in which nobody did anything.
"use strict";
(() => {
  const live = document.getElementById("live");
  const state = document.getElementById("live-state");
  const button = document.getElementById("live-switch");
  if (!live || !window.Idiomorph) return;
  const every = Number(live.dataset.every) * 1000;
  const idleAfter = Number(live.dataset.idle || 1800) * 1000;
  let etag = live.dataset.etag, timer, failures = 0, stopped = false, ended = false, touched = Date.now();

  const say = (text) => { if (state.textContent !== text) state.textContent = text; };
  const plan = () => {
    clearTimeout(timer);
    if (!stopped && !ended && !document.hidden) timer = setTimeout(look, every * Math.min(2 ** failures, 15));
  };
  const stop = (text) => {
    stopped = true;
    clearTimeout(timer);
    button.textContent = "Start updates";
    say(text);
  };
  const start = () => {
    stopped = false;
    touched = Date.now();
    button.textContent = "Stop updates";
    say(`Updates every ${every / 1000} s.`);
    look();
  };

  const show = (html) => Idiomorph.morph(live, html, {
    morphStyle: "innerHTML",
    ignoreActiveValue: true,
    callbacks: {
      // What the visitor types stays.
      beforeNodeMorphed: (old) => !(old.tagName === "FORM" && old.contains(document.activeElement)),
      // What the visitor has opened stays open.
      beforeAttributeUpdated: (name, node) => !(name === "open" && node.tagName === "DETAILS"),
    },
  });

  async function look() {
    if (Date.now() - touched > idleAfter) return stop("Updates have stopped, as nobody has used this page for half an hour.");
    try {
      const headers = { "X-Weir-Live": "1", "If-None-Match": etag };
      const answer = await fetch(location.href, { headers, cache: "no-store", redirect: "error", signal: AbortSignal.timeout(10000) });
      if (answer.status === 401 || answer.status === 403) {
        ended = true;
        button.hidden = true;
        return say("You are signed out: reload the page to sign in.");
      }
      if (answer.status !== 304) {
        if (!answer.ok) throw new Error(answer.status);
        const html = await answer.text();
        if (stopped || document.hidden) return;
        etag = answer.headers.get("ETag");
        show(html);
      }
      failures = 0;
      if (!stopped) say(`Updates every ${every / 1000} s.`);
    } catch {
      failures += 1;
      if (!stopped) say("The server does not answer: what you see is old. It is asked again.");
    }
    plan();
  }

  for (const event of ["pointerdown", "keydown", "scroll"])
    addEventListener(event, () => { touched = Date.now(); }, { passive: true });
  document.addEventListener("visibilitychange", () => { if (document.hidden) clearTimeout(timer); else if (!stopped && !ended) look(); });
  // Back has brought the page as it was left: what it shows is old.
  addEventListener("pageshow", (event) => { if (event.persisted && !stopped && !ended) look(); });
  button.addEventListener("click", () => (stopped ? start() : stop("Updates are stopped.")));
  button.hidden = false;
  say(`Updates every ${every / 1000} s.`);
  plan();
})();
