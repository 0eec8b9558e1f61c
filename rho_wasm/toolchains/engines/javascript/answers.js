// What a tool may answer with, beside a plain value.

/** Holds the answer map (ABI.md) where nobody but this module can read or forge it. */
class Answer {
  #map;
  constructor(map, prototype) {
    this.#map = map;
    setPrototypeOf(this, prototype);
  }
  static map(value) {
    return #map in value ? value.#map : undefined;
  }
}
const answerOf = Answer.map;

function options(given, known, of) {
  if (given === undefined || given === null) return {};
  if (typeof given !== "object" || isArray(given)) {
    throw new TypeError(`rho: the options of ${of} are an object, not ${kindOf(given)}`);
  }
  for (const key of keysOf(given)) {
    if (!hasOwn(known, key)) {
      const near = nearest(key, known);
      const meant = near === undefined ? "" : ` (did you mean ${json(near)}?)`;
      throw new TypeError(`rho: ${of} has no option ${json(key)}${meant}; it has ${join(keysOf(known), ", ")}`);
    }
  }
  return given;
}

/** The one of `known` that begins as `key` does, or the other way round, whatever the case of its letters. */
function nearest(key, known) {
  const letters = (name) => join(split(lowercase(name), "_"), "");
  const given = letters(key);
  for (const name of keysOf(known)) {
    const has = letters(name);
    const shorter = has.length < given.length ? has.length : given.length;
    if (shorter > 2 && slice(has, 0, shorter) === slice(given, 0, shorter)) return name;
  }
  return undefined;
}

function words(value, what) {
  if (typeof value !== "string") throw new TypeError(`rho: ${what} is text, not ${kindOf(value)}`);
  return value;
}

/** A picture for the model: png, jpeg, webp or gif, as the data's first bytes say too. */
export class Image {
  constructor(mime_type, data) {
    this.mime_type = words(mime_type, "an Image's MIME type");
    if (!(data instanceof Uint8Array)) {
      throw new TypeError(`rho: an Image's data is a Uint8Array, not ${kindOf(data)}`);
    }
    this.data = data;
  }
}

function pictures(images) {
  if (images === undefined) return undefined;
  if (!isArray(images)) throw new TypeError(`rho: the images of Ok are an array, not ${kindOf(images)}`);
  const maps = [];
  for (const image of images) {
    if (!(image instanceof Image)) {
      throw new TypeError(`rho: an image of Ok is an Image(mime_type, data), not ${kindOf(image)}`);
    }
    push(maps, { mime_type: image.mime_type, data: image.data });
  }
  return maps.length ? maps : undefined;
}

// Functions, so that `Ok(1)` and `new Ok(1)` are the same thing.

/** The answer. `images` go to the model beside the text, `details` to the host's screens only. */
export function Ok(value = null, given = undefined) {
  const { images, details } = options(given, { images: 1, details: 1 }, "Ok");
  return new Answer({ ok: value, images: pictures(images), details }, Ok.prototype);
}

/** Reports a failure, which the model reads as it is. It is no crash. Throwing it equals returning it. */
export function Failed(reason = null, given = undefined) {
  const { details } = options(given, { details: 1 }, "Failed");
  return new Answer({ error: reason, details }, Failed.prototype);
}

/** Stops and asks a person; the answer becomes this call's result, the tool is not called again. */
export function AskUser(question, given = undefined) {
  if (given !== undefined && (given === null || typeof given !== "object" || isArray(given))) {
    throw new TypeError(`rho: the options of AskUser are an object, not ${kindOf(given)}`);
  }
  return new Answer({ ask_user: words(question, "an AskUser's question"), options: given }, AskUser.prototype);
}

/** Ends the model's loop, with `reason` for the caller and `value` as the outcome. */
export function Halt(reason, value = null) {
  return new Answer({ halt: words(reason, "a Halt's reason"), value }, Halt.prototype);
}

/** The answer map of what a tool returned; what is none of the four is the value of an Ok. */
function answer(result) {
  if (typeof result === "object" && result !== null) return answerOf(result) ?? { ok: result };
  return { ok: result === undefined ? null : result };
}
