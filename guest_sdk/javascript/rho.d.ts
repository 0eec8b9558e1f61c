/** Module "rho", which every JavaScript and TypeScript tool may import, and nothing else. */
declare module "rho" {
  /** What crosses between host and tool. Integers beyond 2^53 are BigInts, bytes are Uint8Arrays. */
  export type Plain =
    | null
    | boolean
    | number
    | bigint
    | string
    | Uint8Array
    | ArrayBuffer
    | Plain[]
    | { [key: string]: Plain | undefined };

  /** A JSON Schema. */
  export type Schema = { [key: string]: unknown };

  /** What a tool gets beside its arguments. */
  export interface Context {
    call_id?: string;
    session_id?: string;
    request_id?: string;
    values?: { [key: string]: Plain };
  }

  /** What a tool may return, at once or as a promise. A plain value is the value of an Ok. */
  export type Answer = Plain | undefined | Ok | Failed | AskUser | Halt;

  export interface Ok {
    readonly __ok: unique symbol;
  }
  /** The answer. `images` go to the model beside the text, `details` to the host's screens only. */
  export const Ok: {
    (value?: Plain, options?: { images?: Image[]; details?: Plain }): Ok;
    new (value?: Plain, options?: { images?: Image[]; details?: Plain }): Ok;
  };

  export interface Failed {
    readonly __failed: unique symbol;
  }
  /** Reports a failure, which the model reads as it is. It is no crash. Throwing it equals returning it. */
  export const Failed: {
    (reason: Plain, options?: { details?: Plain }): Failed;
    new (reason: Plain, options?: { details?: Plain }): Failed;
  };

  export interface AskUser {
    readonly __askUser: unique symbol;
  }
  /** Stops and asks a person; the answer becomes this call's result, the tool is not called again. */
  export const AskUser: {
    (question: string, options?: { [key: string]: Plain }): AskUser;
    new (question: string, options?: { [key: string]: Plain }): AskUser;
  };

  export interface Halt {
    readonly __halt: unique symbol;
  }
  /** Ends the model's loop, with `reason` for the caller and `value` as the outcome. */
  export const Halt: {
    (reason: string, value?: Plain): Halt;
    new (reason: string, value?: Plain): Halt;
  };

  /** A picture for the model: png, jpeg, webp or gif, as the data's first bytes say too. */
  export class Image {
    constructor(mime_type: string, data: Uint8Array);
    readonly mime_type: string;
    readonly data: Uint8Array;
  }

  /** The host said no, or could not. As text, `${error}`, it is "capability: kind: message". */
  export class HostError extends Error {
    constructor(kind: string, message: string, capability: string);
    readonly capability: string;
    readonly kind: "denied" | "undeclared" | "invalid_arguments" | "quota" | "unavailable" | (string & {});
  }

  /** Asks for a capability and waits for what it answers. Throws HostError. `export const capabilities = [...]` names
   * what a file may ask for. */
  export function host(capability: string, args?: { [key: string]: Plain | undefined }): Plain;

  /** A line in the call's log. `console.debug`, `log`, `info`, `warn` and `error` are the same. */
  export const log: {
    debug(...values: unknown[]): void;
    info(...values: unknown[]): void;
    warning(...values: unknown[]): void;
    error(...values: unknown[]): void;
  };

  /** Says how far the call is: to who watches ("progress.report", declared and granted), else in the log. */
  export function progress(done: number, total?: number | null, what?: string): void;

  export interface Declaration {
    description: string;
    /** Of the arguments, which are one object. None given: the tool takes no arguments. */
    input?: Schema;
    /** Of the value of an Ok. */
    output?: Schema;
    /** Calls with their answers, as maps of the ABI: `{ arguments: { n: 1 }, answer: { ok: 2 } }`. */
    examples?: { arguments: { [key: string]: Plain }; answer: { [key: string]: Plain }; host?: Plain[][] }[];
    timeout_ms?: number;
    read_only?: boolean;
    destructive?: boolean;
    idempotent?: boolean;
    metadata?: { [key: string]: Plain };
  }

  /** Declares a tool with schemas of its own, in place of JSDoc: `export const add = tool({ ... }, (args) => ...)`. */
  export function tool<Args, F extends (args: Args, ctx: Context) => Answer | Promise<Answer>>(
    declaration: Declaration,
    run: F,
  ): F;
}
