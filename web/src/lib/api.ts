// The only way to the service: its public interface, as openapi.json describes it.

import createClient from 'openapi-fetch';
import { SvelteSet } from 'svelte/reactivity';
import type { components, paths } from './schema';

export type Schemas = components['schemas'];

/** A failed request. `message` is a sentence for people. */
export class Refusal extends Error {
  /** Names of the fields whose messages are shown beside their controls. */
  readonly shown = new SvelteSet<string>();

  constructor(
    message: string,
    readonly status: number,
    /** Kind of problem, as the service names it. */
    readonly code: string,
    /** Messages of the request's fields, by name. */
    readonly fields: Readonly<Record<string, string>> = {},
    readonly requestId: string | null = null,
    readonly retryAfter: number | null = null,
  ) {
    super(message);
  }

  /** What no field shows. Empty when the fields show everything. */
  get rest(): string {
    const names = Object.keys(this.fields);
    if (!names.some((name) => this.shown.has(name))) return this.message;
    return names.filter((name) => !this.shown.has(name)).map((name) => sentenceAbout(name, this.fields[name] ?? '')).join(' ');
  }
}

/** Supplies the credential, and replaces it when it has expired or is not strong enough. */
export interface Credentials {
  token(): string | null;
  account(): string | null;
  /** Resolves when the person has signed in again. Rejects when they give up. */
  renew(refused: string | null): Promise<void>;
  stepUp(): Promise<void>;
  /** The credential does not permit a request on the account of a team. */
  denied(): void;
}

let credentials: Credentials = { token: () => null, account: () => null, renew: () => Promise.reject(new Error('signed out')), stepUp: () => Promise.resolve(), denied: () => {} };

export function useCredentials(given: Credentials): void {
  credentials = given;
}

const STEP_UP = 'mfa-step-up-required';
const TIMEOUT_MS = 60_000;

/** What {@link authorized} needs to know of an answer. */
interface Outcome {
  status: number;
  /** Kind of the problem that the body describes. */
  code(): Promise<string>;
}

/**
 * Calls `ask` with the headers of the person's credential. Signing in again and a second factor are asked in place, and `ask` is called
 * again.
 */
export async function authorized<T extends Outcome>(ask: (headers: Record<string, string>) => Promise<T>): Promise<T> {
  for (let attempt = 0; ; attempt += 1) {
    const [token, account] = [credentials.token(), credentials.account()];
    const answer = await ask({ ...(token && { Authorization: `Bearer ${token}` }), ...(account && { 'X-Service-Account': account }) });
    if (attempt < 2 && token && answer.status === 401) await credentials.renew(token);
    else if (attempt < 2 && answer.status === 403 && (await answer.code()) === STEP_UP) await credentials.stepUp();
    else {
      if (answer.status === 403 && account) credentials.denied();
      return answer;
    }
  }
}

export const unreachable = (): Refusal => new Refusal('The service could not be reached. Check the connection and try again.', 0, 'offline');

/** Sends a request with the person's credential. */
export async function send(input: Request, { stream = false } = {}): Promise<Response> {
  const { response } = await authorized(async (headers) => {
    const request = input.clone();
    for (const [name, value] of Object.entries(headers)) request.headers.set(name, value);
    const answer = await exchange(request, { credentials: 'omit' }, stream);
    return { status: answer.status, code: async () => codeOf(await answer.clone().json().catch(() => ({}))), response: answer };
  });
  return response;
}

async function exchange(request: Request, init: RequestInit = {}, isStream = false): Promise<Response> {
  try {
    const signal = isStream ? request.signal : AbortSignal.any([request.signal, AbortSignal.timeout(TIMEOUT_MS)]);
    return await fetch(request, { ...init, signal });
  } catch (error) {
    if (request.signal.aborted) throw error;
    throw unreachable();
  }
}

/** Several values of a filter are one parameter, as the contract has it: `status=ready,busy`. */
const querySerializer = { array: { style: 'form', explode: false } } as const;

export const api = createClient<paths>({ baseUrl: location.origin, querySerializer, fetch: (request) => send(request) });

/** For requests without a credential: the steps of a sign-in, and links that anyone can open. */
export const openApi = createClient<paths>({ baseUrl: location.origin, credentials: 'omit', fetch: (request) => exchange(request) });

interface Result<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** Returns the body of a response, or throws a {@link Refusal}. */
export async function take<T>(asked: Promise<Result<T>>): Promise<T> {
  const { data, error, response } = await asked;
  if (response.ok) return data as T;
  throw refusal(response, error);
}

/** As {@link take}, for requests that openapi-fetch cannot send: files and pictures. */
export async function takeBlob(path: string, signal?: AbortSignal): Promise<Blob> {
  const response = await send(new Request(new URL(path, location.origin), signal ? { signal } : {}));
  if (response.ok) return response.blob();
  throw refusal(response, await response.json().catch(() => ({})));
}

export function codeOf(problem: unknown): string {
  return (problem as Problem | null)?.code ?? '';
}

interface Problem {
  code?: string;
  detail?: string;
  title?: string;
  request_id?: string;
  errors?: { field: string; message: string }[];
}

export function refusal(response: Response, body: unknown): Refusal {
  const problem = (body ?? {}) as Problem;
  const fields = Object.fromEntries((problem.errors ?? []).map(({ field, message }) => [field, message]));
  const after = Number(response.headers.get('Retry-After'));
  const retryAfter = after > 0 ? after : null;
  return new Refusal(sentenceOf(response.status, problem, retryAfter), response.status, codeOf(problem), fields, problem.request_id ?? null, retryAfter);
}

function sentenceOf(status: number, problem: Problem, retryAfter: number | null): string {
  if (problem.code === 'concurrency-limit') return `${sentence(problem.detail ?? 'All sessions of the plan are live')} End a session, or choose a larger plan under Billing.`;
  if (status === 429) return `Too many requests. Try again in ${retryAfter ?? 60} s.`;
  if (problem.errors?.length) return problem.errors.map(({ field, message }) => sentenceAbout(field, message)).join(' ');
  if (status >= 500 && !problem.detail) return 'The service is temporarily unavailable. Try again in a moment.';
  return sentence(problem.detail ?? problem.title ?? `The service answered ${status}`);
}

const sentenceAbout = (field: string, message: string): string => sentence(`${field.replace(/[_.]/g, ' ')} ${message}`);

/** Message of a field without its name, which the label says. The service writes the rest of a sentence: "must be …", "is wrong". */
export const fieldSentence = (message: string): string => sentence(/^(is|was|does|has)\b/.test(message) ? `it ${message}` : message);

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1).replace(/[.\s]+$/, '')}.`;
}

/** One page of a list of the service. */
export interface Page<T> {
  data: T[];
  next_cursor: string | null;
}
