// The only way to the service: its public interface, as openapi.json describes it.

import createClient from 'openapi-fetch';
import type { components, paths } from './schema';

export type Schemas = components['schemas'];

/** A failed request. `message` is a sentence for people. */
export class Refusal extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly slug: string,
    /** Messages of the request's fields, by name. */
    readonly fields: Readonly<Record<string, string>> = {},
    readonly requestId: string | null = null,
    readonly retryAfter: number | null = null,
  ) {
    super(message);
  }
}

/** Supplies the credential, and replaces it when it has expired or is not strong enough. */
export interface Credentials {
  token(): string | null;
  account(): string | null;
  /** Resolves when the person has signed in again. Rejects when they give up. */
  renew(refused: string | null): Promise<void>;
  stepUp(): Promise<void>;
}

let credentials: Credentials = { token: () => null, account: () => null, renew: () => Promise.reject(new Error('signed out')), stepUp: () => Promise.resolve() };

export function useCredentials(given: Credentials): void {
  credentials = given;
}

const STEP_UP = 'mfa-step-up-required';
const TIMEOUT_MS = 60_000;

/** Sends a request with the person's credential. Signing in again and a second factor are asked in place, and the request goes on. */
export async function send(input: Request, { stream = false } = {}): Promise<Response> {
  for (let attempt = 0; ; attempt += 1) {
    const request = input.clone();
    const token = credentials.token();
    if (token) request.headers.set('Authorization', `Bearer ${token}`);
    const account = credentials.account();
    if (account) request.headers.set('X-Service-Account', account);
    let response: Response;
    try {
      const signal = stream ? input.signal : AbortSignal.any([input.signal, AbortSignal.timeout(TIMEOUT_MS)]);
      response = await fetch(request, { signal, credentials: 'omit' });
    } catch (error) {
      if (input.signal.aborted) throw error;
      throw new Refusal('The service could not be reached. Check the connection and try again.', 0, 'offline');
    }
    if (attempt < 2 && token && response.status === 401) {
      await credentials.renew(token);
      continue;
    }
    if (attempt < 2 && response.status === 403 && (await slugOf(response.clone())) === STEP_UP) {
      await credentials.stepUp();
      continue;
    }
    return response;
  }
}

export const api = createClient<paths>({ baseUrl: location.origin, fetch: (request) => send(request) });

/** For the steps of a sign-in, which carry no credential. */
export const openApi = createClient<paths>({ baseUrl: location.origin, credentials: 'omit' });

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

/** As {@link take}, with a path and a type of the answer that the caller states. Prefer {@link api}, whose types are checked. */
export async function call<T>(method: string, path: string, { body, query = {} }: { body?: unknown; query?: Record<string, string | number> } = {}): Promise<T> {
  const address = new URL(path, location.origin);
  for (const [name, value] of Object.entries(query)) if (value !== '') address.searchParams.set(name, String(value));
  const json = body === undefined ? {} : { body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } };
  const response = await send(new Request(address, { method, ...json }));
  const answer: unknown = response.status === 204 ? undefined : await response.json().catch(() => ({}));
  if (response.ok) return answer as T;
  throw refusal(response, answer);
}

async function slugOf(response: Response): Promise<string> {
  return slug(await response.json().catch(() => ({})));
}

function slug(problem: Problem): string {
  return (problem.type ?? '').split('/').pop() ?? '';
}

interface Problem {
  type?: string;
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
  return new Refusal(sentenceOf(response.status, problem, retryAfter), response.status, slug(problem), fields, problem.request_id ?? null, retryAfter);
}

function sentenceOf(status: number, problem: Problem, retryAfter: number | null): string {
  if (status === 429) return `Too many requests. Try again in ${retryAfter ?? 60} s.`;
  if (problem.errors?.length) return problem.errors.map(({ field, message }) => sentence(`${words(field)} ${message}`)).join(' ');
  if (status >= 500 && !problem.detail) return 'The service is temporarily unavailable. Try again in a moment.';
  return sentence(problem.detail ?? problem.title ?? `The service answered ${status}`);
}

function words(field: string): string {
  return field.replace(/[_.]/g, ' ');
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1).replace(/[.\s]+$/, '')}.`;
}

/** One page of a list of the service. */
export interface Page<T> {
  data: T[];
  next_cursor: string | null;
}
