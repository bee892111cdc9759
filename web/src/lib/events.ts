// Reads a stream of server-sent events. EventSource cannot send an Authorization header.

import { refusal, send } from './api';

export interface StreamEvent {
  id: string;
  event: string;
  data: string;
}

/** Reads until the stream ends. */
export async function readEvents(path: string, lastId: string | null, onEvent: (event: StreamEvent) => void, signal: AbortSignal, onOpen: () => void = () => {}): Promise<void> {
  const headers: Record<string, string> = { Accept: 'text/event-stream' };
  if (lastId) headers['Last-Event-ID'] = lastId;
  const response = await send(new Request(new URL(path, location.origin), { headers, signal }), { stream: true });
  if (!response.ok || !response.body) throw refusal(response, await response.json().catch(() => ({})));
  onOpen();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  let event: StreamEvent = { id: '', event: 'message', data: '' };
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (line === '') {
        if (event.data || event.event !== 'message') onEvent(event);
        event = { id: event.id, event: 'message', data: '' };
      } else if (line.startsWith('data:')) event.data += line.slice(5).trimStart();
      else if (line.startsWith('event:')) event.event = line.slice(6).trim();
      else if (line.startsWith('id:')) event.id = line.slice(3).trim();
    }
  }
}
