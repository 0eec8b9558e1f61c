// The parts of a URL, and the text that they come to, as the URL Standard has them; but a host with letters beyond ASCII
// is refused.

const PORTS = { "http:": "80", "https:": "443", "ws:": "80", "wss:": "443", "ftp:": "21", "file:": "" };
const IN_FRAGMENT = ' "<>`';
const IN_QUERY = ' "#<>';
const IN_PATH = `${IN_QUERY}?\`{}^`;
const IN_USER = `${IN_PATH}/:;=@[\\]|`;

function percentEncoded(text, also) {
  let out = "";
  for (const each of text) {
    const code = each.codePointAt(0);
    if (code > 0x7e) out += encodeURIComponent(each);
    else if (code < 0x20 || also.includes(each)) out += `%${code.toString(16).toUpperCase().padStart(2, "0")}`;
    else out += each;
  }
  return out;
}

const utf8Encoder = new TextEncoder();
const utf8Decoder = new TextDecoder("utf-8", { ignoreBOM: true });

function percentDecoded(text) {
  if (!text.includes("%")) return text;
  const bytes = [];
  const given = utf8Encoder.encode(text);
  for (let at = 0; at < given.length; at++) {
    const hex = given[at] === 0x25 ? String.fromCharCode(given[at + 1], given[at + 2]) : "";
    if (/^[0-9a-f]{2}$/i.test(hex)) {
      bytes.push(parseInt(hex, 16));
      at += 2;
    } else {
      bytes.push(given[at]);
    }
  }
  return utf8Decoder.decode(Uint8Array.from(bytes));
}

function invalidUrl(input, why) {
  const error = new TypeError(why === undefined ? "Invalid URL" : `Invalid URL: ${why}`);
  error.code = "ERR_INVALID_URL";
  error.input = input;
  return error;
}

function ipv4Of(host) {
  const parts = host.split(".");
  if (parts.length > 1 && parts.at(-1) === "") parts.pop();
  if (!/^(?:\d+|0x[0-9a-f]*)$/i.test(parts.at(-1))) return undefined;
  const numbers = parts.map((part) => {
    if (/^0x[0-9a-f]*$/i.test(part)) return part.length === 2 ? 0 : parseInt(part, 16);
    if (/^0[0-7]+$/.test(part)) return parseInt(part, 8);
    return /^(?:0|[1-9]\d*)$/.test(part) ? Number(part) : NaN;
  });
  const last = numbers.pop();
  if (numbers.length > 3 || numbers.some((each) => !(each < 256)) || !(last < 256 ** (4 - numbers.length))) {
    throw invalidUrl(host);
  }
  const address = numbers.reduce((sum, each, place) => sum + each * 256 ** (3 - place), last);
  return [24, 16, 8, 0].map((bits) => Math.floor(address / 2 ** bits) % 256).join(".");
}

function ipv6Of(text) {
  const dotted = /^(.*:)(\d+)\.(\d+)\.(\d+)\.(\d+)$/.exec(text);
  if (dotted !== null) {
    const bytes = dotted.slice(2).map((part) => (/^(?:0|[1-9]\d{0,2})$/.test(part) && part < 256 ? Number(part) : NaN));
    if (bytes.some(Number.isNaN)) throw invalidUrl(text);
    const [a, b, c, d] = bytes;
    text = `${dotted[1]}${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
  }
  const halves = text.split("::");
  const pieces = halves.map((half) => (half === "" ? [] : half.split(":")));
  const left = 8 - pieces.flat().length;
  const whole = halves.length === 1 ? left === 0 : halves.length === 2 && left > 0;
  if (!whole || !pieces.flat().every((piece) => /^[0-9a-f]{1,4}$/i.test(piece))) throw invalidUrl(text);
  const filled = [...pieces[0], ...Array(left).fill("0"), ...(pieces[1] ?? [])];
  const all = filled.map((piece) => parseInt(piece, 16).toString(16));
  // The first of the longest runs of zeros is left out.
  const runs = [...all.join(":").matchAll(/(?<![^:])0(?::0)+(?![^:])/g)].sort((a, b) => b[0].length - a[0].length);
  if (runs.length === 0) return all.join(":");
  const joined = all.join(":");
  const [{ index, 0: run }] = runs;
  return `${joined.slice(0, index).replace(/:$/, "")}::${joined.slice(index + run.length).replace(/^:/, "")}`;
}

function hostOf(text, special) {
  if (text.startsWith("[")) {
    if (!text.endsWith("]")) throw invalidUrl(text);
    return `[${ipv6Of(text.slice(1, -1))}]`;
  }
  if (!special) {
    if (/[\0\t\n\r #/:<>?@[\\\]^|]/.test(text)) throw invalidUrl(text);
    return percentEncoded(text, "");
  }
  const host = percentDecoded(text).toLowerCase();
  if (/[^\0-\x7f]/.test(host)) {
    throw invalidUrl(text, "of a host with letters beyond ASCII, write the form that begins with xn--");
  }
  if (host === "" || /[\0-\x20"#%/:<>?@[\\\]^`{|}\x7f]/.test(host)) throw invalidUrl(text);
  return ipv4Of(host) ?? host;
}

function portOf(text, protocol) {
  if (text === "") return "";
  if (!/^\d+$/.test(text) || Number(text) > 65535) throw invalidUrl(text);
  const port = String(Number(text));
  return port === PORTS[protocol] ? "" : port;
}

function withAuthority(parts, text) {
  const special = parts.protocol in PORTS;
  const at = text.lastIndexOf("@");
  if (at >= 0) {
    const [, user, password = ""] = /^([^:]*)(?::(.*))?$/s.exec(text.slice(0, at));
    parts.username = percentEncoded(user, IN_USER);
    parts.password = percentEncoded(password, IN_USER);
  }
  const [, host, port = ""] = /^(\[[^\]]*\]|[^:]*)(?::(.*))?$/s.exec(text.slice(at + 1)) ?? [];
  if (host === undefined || (host === "" && (special || at >= 0 || port !== ""))) throw invalidUrl(text);
  parts.host = host === "" ? "" : hostOf(host, special);
  parts.port = portOf(port, parts.protocol);
}

function withPath(parts, text, before = []) {
  const special = parts.protocol in PORTS;
  const path = [...before];
  const segments = text.split(special ? /[/\\]/ : "/");
  for (const [place, segment] of segments.entries()) {
    const last = place === segments.length - 1;
    const dots = segment.replace(/%2e/gi, ".");
    if (dots === "..") path.pop();
    if (dots !== "." && dots !== "..") path.push(percentEncoded(segment, IN_PATH));
    else if (last) path.push("");
  }
  parts.path = path;
}

function urlParts(input, base) {
  let text = input.toWellFormed().replace(/^[\0-\x20]+|[\0-\x20]+$/g, "").replace(/[\t\n\r]/g, "");
  const parts = { protocol: "", username: "", password: "", host: null, port: "", path: [], query: null, fragment: null };
  const cut = (mark) => {
    const at = text.indexOf(mark);
    if (at < 0) return null;
    const rest = text.slice(at + 1);
    text = text.slice(0, at);
    return rest;
  };
  const fragment = cut("#");
  parts.fragment = fragment === null ? null : percentEncoded(fragment, IN_FRAGMENT);
  const query = cut("?");
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(text);
  parts.protocol = scheme === null ? base?.protocol : scheme[0].toLowerCase();
  if (parts.protocol === undefined) throw invalidUrl(input);
  const special = parts.protocol in PORTS;
  if (query !== null) parts.query = percentEncoded(query, special ? `${IN_QUERY}'` : IN_QUERY);
  if (scheme !== null) text = text.slice(scheme[0].length);
  if (special) text = text.replace(/^[/\\]+/, (slashes) => "/".repeat(slashes.length));
  const relative = scheme === null || (special && base?.protocol === parts.protocol && !text.startsWith("//"));
  if (!relative && !special && !text.startsWith("/")) {
    parts.path = percentEncoded(text, "");
    return parts;
  }
  if (relative && typeof base.path === "string") {
    if (text !== "" || query !== null || fragment === null) throw invalidUrl(input);
    return { ...base, fragment: parts.fragment };
  }
  if (text.startsWith("//") || (special && !relative && parts.protocol !== "file:")) {
    const rest = parts.protocol === "file:" || !special ? text.slice(2) : text.replace(/^\/+/, "");
    const end = rest.search(special ? /[/\\]/ : /\//);
    const authority = end < 0 ? rest : rest.slice(0, end);
    if (parts.protocol !== "file:") withAuthority(parts, authority);
    else parts.host = authority === "" ? "" : hostOf(authority, true).replace(/^localhost$/, "");
    if (end >= 0 || special) withPath(parts, end < 0 ? "" : rest.slice(end + 1));
    return parts;
  }
  if (!relative) {
    if (parts.protocol === "file:") parts.host = "";
    withPath(parts, text.replace(/^\//, ""));
    return parts;
  }
  const { username, password, host, port } = base;
  Object.assign(parts, { username, password, host, port });
  if (text.startsWith("/")) withPath(parts, text.slice(1));
  else if (text !== "") withPath(parts, text, base.path.slice(0, -1));
  else Object.assign(parts, { path: base.path, query: query === null ? base.query : parts.query });
  return parts;
}

const urlPath = ({ path }) => (typeof path === "string" ? path : path.map((segment) => `/${segment}`).join(""));

function urlText(parts) {
  const { protocol, username, password, host, port, path, query, fragment } = parts;
  let out = protocol;
  if (host !== null) {
    const user = username !== "" || password !== "" ? `${username}${password === "" ? "" : `:${password}`}@` : "";
    out += `//${user}${host}${port === "" ? "" : `:${port}`}`;
  } else if (typeof path !== "string" && path.length > 1 && path[0] === "") {
    out += "/.";
  }
  return `${out}${urlPath(parts)}${query === null ? "" : `?${query}`}${fragment === null ? "" : `#${fragment}`}`;
}
