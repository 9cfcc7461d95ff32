// <weir-bell>: docs/reference/bell.md
const make = (name, about, ...inside) => {
  const made = Object.assign(document.createElement(name), about);
  made.append(...inside);
  return made;
};
const button = (textContent, onclick, about) => make("button", { textContent, onclick, ...about });

customElements.define("weir-bell", class extends HTMLElement {
  #etag; #unread; #before; #timer; #ended; #left; #asked = 0; #told = 0; #failures = 0; #rows = new Map();
  #says = make("span", { className: "says", role: "status" });
  #bell = button("", () => this.#open(this.#panel.hidden), { part: "button", ariaExpanded: false });
  #note = make("p");
  #all = button("Mark all as read", () => this.#mark("read-all/"));
  #list = make("ul");
  #older = button("Older", () => this.#page(this.#before));
  #panel = make("section", { hidden: true, part: "panel", tabIndex: -1, ariaLabel: "Notifications" },
    this.#note, this.#all, this.#list, this.#older);

  connectedCallback() {
    if (!this.shadowRoot) {
      this.attachShadow({ mode: "open" }).append(
        make("link", { rel: "stylesheet", href: this.getAttribute("css") }), this.#bell, this.#says, this.#panel);
      this.onkeydown = ({ key }) => {
        if (key === "Escape" && this.#open(false)) this.#bell.focus();
      };
      this.#etag = this.getAttribute("etag");
      this.#show(+this.getAttribute("unread"));
    }
    this.#left = new AbortController();
    const on = (name, then) => addEventListener(name, then, this.#left);
    on("visibilitychange", () => document.hidden ? this.#plan() : this.#look());
    on("pointerdown", (event) => event.composedPath().includes(this) || this.#open(false));
    on("resize", () => this.#place());
    this.#plan();
  }

  disconnectedCallback() {
    this.#left.abort();
    this.#plan();
  }

  #plan() {
    clearTimeout(this.#timer);
    const wait = this.getAttribute("every") * 1000 * Math.min(2 ** this.#failures, 12);
    if (!this.#ended && this.isConnected && !document.hidden) this.#timer = setTimeout(() => this.#look(), wait);
  }

  async #look() {
    clearTimeout(this.#timer);
    await (this.#panel.hidden ? this.#ask("", { headers: { "If-None-Match": this.#etag ?? "" } }) : this.#page());
    this.#plan();
  }

  async #ask(path, options) {
    if (this.#ended) return;
    const mine = ++this.#asked, had = this.#etag;
    try {
      const answer = await fetch(this.getAttribute("src") + path,
        { cache: "no-store", redirect: "error", signal: AbortSignal.timeout(10000), ...options });
      const { status } = answer, found = answer.ok && await answer.json();
      if (this.#ended = [401, 403].includes(status)) return this.#state("You are signed out: load the page again.");
      if (!found && status !== 304) throw status;
      this.#failures = 0;
      this.#state("");
      if (mine < this.#told || !found && this.#etag !== had) return; // not its 304
      this.#told = mine;
      this.#etag = answer.headers.get("ETag"); // its number
      found && this.#show(found.unread);
      return found;
    } catch {
      this.#failures++;
      this.#state("The server does not answer: this may be old.");
    }
  }

  async #page(before) {
    const told = this.#told, found = await this.#ask("page/" + (before ? `?before=${before}` : ""));
    if (!found) return before && this.#told > told && this.#page(before); // overtaken
    const rows = this.#rows, page = found.notifications, ids = new Set(page.map(({ id }) => id));
    if (before || !rows.size) this.#before = found.before;
    for (const [id, { item }] of rows) // what this page would have
      if (id < (before ?? Infinity) && id >= (found.before ?? 0) && !ids.has(id) && rows.delete(id)) item.remove();
    page.forEach((each) => this.#row(each));
    this.#older.hidden = !this.#before;
  }

  #row({ id, url, title, body, created_at, read }) {
    const rows = this.#rows;
    if (!rows.has(id)) {
      const onclick = () => this.#mark("read/", [id]), name = make("a", { href: url, textContent: title, onclick });
      if (!url || !/^https?:/.test(name.protocol)) name.removeAttribute("href");
      const done = button("Mark as read", onclick, { ariaLabel: "Mark as read: " + title });
      const time = make("time", { dateTime: created_at, textContent: new Date(created_at).toLocaleString() });
      const item = make("li", {}, name, make("p", { textContent: body }), time, " ", done);
      const next = Math.max(...[...rows.keys()].filter((other) => other < id));
      this.#list.insertBefore(item, rows.get(next)?.item);
      rows.set(id, { name, done, item });
    }
    const { name, done } = rows.get(id);
    name.className = read ? "" : "new";
    if (read && this.shadowRoot.activeElement === done) this.#panel.focus();
    done.hidden = read;
  }

  async #mark(path, ids) {
    const headers = { "X-CSRFToken": this.getAttribute("csrf"), "Content-Type": "application/json" };
    if (await this.#ask(path, { method: "POST", headers, body: JSON.stringify({ ids }), keepalive: true })) await this.#page();
  }

  #open(is) {
    if (this.#panel.hidden !== is) return false;
    this.#panel.hidden = !is;
    this.#bell.ariaExpanded = is;
    this.#place();
    if (is) this.#look();
    return true;
  }

  // In the window.
  #place() {
    const { left } = this.getBoundingClientRect(), { offsetWidth, style } = this.#panel;
    style.left = Math.max(8, Math.min(left, document.documentElement.clientWidth - 8 - offsetWidth)) - left + "px";
  }

  #show(unread) {
    const says = `${unread} unread notification${unread === 1 ? "" : "s"}`;
    if (unread === this.#unread) return;
    if (this.#unread >= 0) this.#says.textContent = says;
    this.#bell.replaceChildren(make("slot", { name: "glyph" }), this.#unread = unread);
    this.#bell.ariaLabel = says;
    this.#all.hidden = !unread;
  }

  #state(text) {
    if (this.#note.textContent === text) return;
    this.#says.textContent = this.#bell.title = this.#note.textContent = text;
  }
});
