// Requests that openapi-fetch cannot send: files with their progress.

import { Refusal, refusal, send } from './api';
import { session } from './session.svelte';

/** Downloads a file, and reports the received bytes. */
export async function receive(path: string, signal: AbortSignal, onProgress: (bytes: number) => void): Promise<Blob> {
  const response = await send(new Request(new URL(path, location.origin), { signal }), { stream: true });
  if (!response.ok || !response.body) throw refusal(response, await response.json().catch(() => ({})));
  const parts: BlobPart[] = [];
  let received = 0;
  const reader = response.body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return new Blob(parts, { type: response.headers.get('Content-Type') ?? '' });
    parts.push(value as Uint8Array<ArrayBuffer>);
    received += value.length;
    onProgress(received);
  }
}

/** Sends a file, and reports the share that is sent. `fetch` reports no progress of a request. */
export async function upload<T>(path: string, file: Blob, type: string, signal: AbortSignal, onProgress: (share: number) => void): Promise<T> {
  const token = session.current?.token ?? null;
  const { status, body, after } = await new Promise<{ status: number; body: string; after: string | null }>((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('POST', new URL(path, location.origin));
    request.setRequestHeader('Content-Type', type);
    if (token) request.setRequestHeader('Authorization', `Bearer ${token}`);
    if (session.account) request.setRequestHeader('X-Service-Account', session.account);
    request.upload.onprogress = ({ loaded, total }) => onProgress(total > 0 ? loaded / total : 0);
    request.onload = () => resolve({ status: request.status, body: request.responseText, after: request.getResponseHeader('Retry-After') });
    request.onerror = () => reject(new Refusal('The service could not be reached. Check the connection and try again.', 0, 'offline'));
    request.onabort = () => reject(new Error('cancelled'));
    signal.addEventListener('abort', () => request.abort());
    request.send(file);
  });
  const answer: unknown = parsed(body);
  if (status >= 200 && status < 300) return answer as T;
  if (status === 401 && session.current) {
    if (session.current.token === token) await session.ask('sign-in');
    return upload(path, file, type, signal, onProgress);
  }
  throw refusal(new Response(null, { status, headers: after ? { 'Retry-After': after } : {} }), answer);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return {};
  }
}

/** Content of a file in base64. */
export async function base64(file: Blob): Promise<string> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = '';
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}
