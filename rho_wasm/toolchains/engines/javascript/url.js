// URL: its parts one by one, each of which may be set.

globalThis.URL = class URL {
  #parts;
  #parameters;

  constructor(input, base) {
    this.#parts = urlParts(`${input}`, base === undefined ? undefined : urlParts(`${base}`));
  }

  static canParse(input, base) {
    return URL.parse(input, base) !== null;
  }

  static parse(input, base) {
    try {
      return new URL(input, base);
    } catch {
      return null;
    }
  }

  /** What a setter is given that no URL can have changes nothing. */
  #change(change) {
    const parts = { ...this.#parts };
    try {
      change(parts);
    } catch {
      return;
    }
    this.#parts = parts;
  }

  /** Whether there is a host that may have a user and a port. */
  get #reached() {
    return Boolean(this.#parts.host) && this.#parts.protocol !== "file:";
  }

  #query(query) {
    this.#parts.query = query === "" ? null : query;
  }

  get href() {
    return urlText(this.#parts);
  }

  set href(value) {
    this.#parts = urlParts(`${value}`);
    this.#parameters?.[REPLACED](this.#parts.query ?? "");
  }

  get origin() {
    const { protocol } = this.#parts;
    return protocol in PORTS && protocol !== "file:" ? `${protocol}//${this.host}` : "null";
  }

  get protocol() {
    return this.#parts.protocol;
  }

  set protocol(value) {
    this.#change((parts) => {
      const protocol = /^([a-z][a-z0-9+.-]*):?/i.exec(`${value}`)?.[1].toLowerCase();
      if (protocol === undefined || `${protocol}:` in PORTS !== parts.protocol in PORTS) return;
      parts.protocol = `${protocol}:`;
      parts.port = portOf(parts.port, parts.protocol);
    });
  }

  get username() {
    return this.#parts.username;
  }

  set username(value) {
    if (this.#reached) this.#parts.username = percentEncoded(`${value}`, IN_USER);
  }

  get password() {
    return this.#parts.password;
  }

  set password(value) {
    if (this.#reached) this.#parts.password = percentEncoded(`${value}`, IN_USER);
  }

  get host() {
    const { host, port } = this.#parts;
    return `${host ?? ""}${port === "" ? "" : `:${port}`}`;
  }

  set host(value) {
    this.#change((parts) => {
      const [, host, port] = /^(\[[^\]]*\]|[^:/?#]*)(?::(\d*))?/.exec(`${value}`);
      parts.host = hostOf(host, parts.protocol in PORTS);
      if (port) parts.port = portOf(port, parts.protocol);
    });
  }

  get hostname() {
    return this.#parts.host ?? "";
  }

  set hostname(value) {
    this.#change((parts) => {
      parts.host = hostOf(/^(?:\[[^\]]*\]|[^:/?#]*)/.exec(`${value}`)[0], parts.protocol in PORTS);
    });
  }

  get port() {
    return this.#parts.port;
  }

  set port(value) {
    this.#change((parts) => {
      const digits = /^\d*/.exec(`${value}`)[0];
      if (this.#reached && (`${value}` === "" || digits !== "")) parts.port = portOf(digits, parts.protocol);
    });
  }

  get pathname() {
    return urlPath(this.#parts);
  }

  set pathname(value) {
    if (typeof this.#parts.path !== "string") withPath(this.#parts, `${value}`.replace(/^[/\\]/, ""));
  }

  get search() {
    const { query } = this.#parts;
    return query ? `?${query}` : "";
  }

  set search(value) {
    const text = `${value}`.replace(/^\?/, "");
    this.#query(percentEncoded(text, this.#parts.protocol in PORTS ? `${IN_QUERY}'` : IN_QUERY));
    this.#parameters?.[REPLACED](this.#parts.query ?? "");
  }

  get searchParams() {
    if (this.#parameters === undefined) {
      this.#parameters = new URLSearchParams(this.search);
      this.#parameters[CHANGED] = (query) => this.#query(query);
    }
    return this.#parameters;
  }

  get hash() {
    const { fragment } = this.#parts;
    return fragment ? `#${fragment}` : "";
  }

  set hash(value) {
    const text = `${value}`.replace(/^#/, "");
    this.#parts.fragment = text === "" ? null : percentEncoded(text, IN_FRAGMENT);
  }

  toString() {
    return this.href;
  }

  toJSON() {
    return this.href;
  }
};

for (const name of ["URL", "URLSearchParams"]) Object.defineProperty(globalThis, name, { enumerable: false });
