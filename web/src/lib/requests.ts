// Requests that openapi-fetch cannot send: files with their progress.

import { authorized, codeOf, refusal, send, unreachable } from './api';

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
  const { status, body, retryAfter } = await authorized((headers) => post(path, file, { ...headers, 'Content-Type': type }, signal, onProgress));
  if (status >= 200 && status < 300) return body as T;
  throw refusal(new Response(null, { status, headers: retryAfter ? { 'Retry-After': retryAfter } : {} }), body);
}

interface Uploaded {
  status: number;
  body: unknown;
  retryAfter: string | null;
  code(): Promise<string>;
}

function post(path: string, file: Blob, headers: Record<string, string>, signal: AbortSignal, onProgress: (share: number) => void): Promise<Uploaded> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('POST', new URL(path, location.origin));
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.onprogress = ({ loaded, total }) => onProgress(total > 0 ? loaded / total : 0);
    request.onload = () => {
      const body = parsed(request.responseText);
      resolve({ status: request.status, body, retryAfter: request.getResponseHeader('Retry-After'), code: () => Promise.resolve(codeOf(body)) });
    };
    request.onerror = () => reject(unreachable());
    request.onabort = () => reject(new Error('cancelled'));
    signal.addEventListener('abort', () => request.abort(), { once: true });
    if (signal.aborted) request.abort();
    else request.send(file);
  });
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
