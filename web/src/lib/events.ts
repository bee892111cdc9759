// Reads a stream of server-sent events. EventSource cannot send an Authorization header.

import { refusal, send } from './api';
import { untilHidden, untilShown } from './visibility';

export interface StreamEvent {
  id: string;
  event: string;
  data: string;
}

/**
 * Reads until the stream ends, or until the tab is hidden. A hidden tab opens no stream before it is shown: without HTTP/2, a browser
 * has six connections to the service for all its tabs, and streams of hidden tabs would leave none for requests.
 */
export async function readEvents(path: string, lastId: string | null, onEvent: (event: StreamEvent) => void, stopped: AbortSignal, onOpen: () => void = () => {}): Promise<void> {
  await untilShown(stopped);
  const hidden = untilHidden();
  try {
    await read(path, lastId, onEvent, AbortSignal.any([stopped, hidden.signal]), onOpen);
  } catch (error) {
    if (stopped.aborted || !hidden.signal.aborted) throw error;
  } finally {
    hidden.release();
  }
}

async function read(path: string, lastId: string | null, onEvent: (event: StreamEvent) => void, signal: AbortSignal, onOpen: () => void): Promise<void> {
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
