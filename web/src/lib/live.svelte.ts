// A live view of a session's browser: pictures arrive, input leaves. docs/contract/live.md describes the messages.

import { type Tickets, ViewEnded } from './tickets';

/** Canvas pixels per CSS pixel of the remote browser. */
const SCALE = 2;
const FINGERS = 10;
/** The pause between attempts doubles each time. */
const LONGEST_PAUSE_MS = 5_000;
const PROTOCOL = 'kitfleet.live.v1';

const ENDED: Record<number, string> = {
  4000: 'The session has ended.',
  4001: 'You are not allowed to watch this session any more.',
  4002: 'This page and the service are incompatible. Reload the page.',
  4004: 'This page sent more input than the service accepts. Reload the page.',
};

export interface MenuItem {
  label: string;
  enabled: boolean;
  selected: boolean;
  group: boolean;
}

export interface PageDialog {
  kind: 'alert' | 'confirm' | 'prompt' | 'before_unload';
  message: string;
  default: string | null;
}

type Said =
  | { type: 'hello'; role: 'viewer' | 'controller' }
  | { type: 'page'; url: string; title: string | null }
  | { type: 'control'; driver: string; may_act: boolean; offers?: 'takeover' | 'handback' }
  | { type: 'menu'; items: MenuItem[] | null }
  | { type: 'dialog'; dialog: PageDialog | null }
  | { type: 'refused'; reason: string; detail: string };

export class LiveView {
  message = $state('Connecting…');
  hasPicture = $state(false);
  hasEnded = $state(false);
  url = $state('');
  title = $state<string | null>(null);
  /** Who drives an agent session: `you`, `agent`, `other`, or `nobody`. */
  driver = $state('nobody');
  /** Whether the viewer is a controller, who can act at times. */
  isController = $state(false);
  mayAct = $state(false);
  offers = $state<'takeover' | 'handback' | null>(null);
  menu = $state.raw<MenuItem[] | null>(null);
  dialog = $state.raw<PageDialog | null>(null);
  /** Width and height of the viewport in CSS pixels. */
  size = $state.raw<[number, number]>([393, 852]);

  #session: string;
  #tickets: Tickets;
  #canvas: HTMLCanvasElement | null = null;
  #socket: WebSocket | null = null;
  #stopped = false;
  #tries = 0;
  /** A picture has arrived on the present connection. */
  #isSeen = false;
  #drawing: Promise<void> = Promise.resolve();
  #fingers = new Map<number, number>();
  #moves = new Map<number, object>();

  constructor(session: string, tickets: Tickets) {
    [this.#session, this.#tickets] = [session, tickets];
  }

  start(canvas: HTMLCanvasElement): () => void {
    this.#canvas = canvas;
    void this.#connect();
    return () => {
      this.#stopped = true;
      this.#socket?.close();
    };
  }

  async #connect(): Promise<void> {
    if (this.#stopped) return;
    this.#isSeen = false;
    let ticket: string;
    try {
      ticket = await this.#tickets();
    } catch (error) {
      if (error instanceof ViewEnded) return this.#end(error.message);
      return this.#again('The service could not be reached.');
    }
    if (this.#stopped) return;
    const address = new URL(`/v1/sessions/${this.#session}/live`, location.origin);
    address.protocol = address.protocol.replace('http', 'ws');
    const socket = new WebSocket(address, [PROTOCOL, `ticket.${ticket}`]);
    this.#socket = socket;
    socket.binaryType = 'arraybuffer';
    socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
      if (typeof data === 'string') this.#hear(JSON.parse(data) as Said);
      else this.#drawing = this.#drawing.then(() => this.#draw(data)).catch(() => socket.close());
    };
    socket.onclose = ({ code }) => {
      this.#release();
      const ended = ENDED[code];
      if (ended) this.#end(ended);
      else this.#again('The connection was lost.');
    };
  }

  #end(why: string): void {
    [this.hasEnded, this.message] = [true, why];
  }

  #again(why: string): void {
    if (this.#stopped) return;
    this.message = `${why} Trying again…`;
    setTimeout(() => void this.#connect(), Math.min(LONGEST_PAUSE_MS, 200 * 2 ** this.#tries));
    this.#tries += 1;
  }

  /** A header of 32 bytes with little-endian numbers, then a JPEG. */
  async #draw(message: ArrayBuffer): Promise<void> {
    const canvas = this.#canvas;
    const context = canvas?.getContext('2d');
    if (!canvas || !context) return;
    const head = new DataView(message);
    const at = (offset: number) => head.getUint16(offset, true);
    const picture = await createImageBitmap(new Blob([new Uint8Array(message, 32)], { type: 'image/jpeg' }));
    const size: [number, number] = [at(2), at(4)];
    if (!this.hasPicture || this.size[0] !== size[0] || this.size[1] !== size[1]) {
      this.size = size;
      [canvas.width, canvas.height] = [size[0] * SCALE, size[1] * SCALE];
    }
    context.drawImage(picture, at(6) * SCALE, at(8) * SCALE, at(10) * SCALE, at(12) * SCALE);
    picture.close();
    this.#send({ type: 'ack', seq: head.getUint32(16, true) });
    if (this.#isSeen) return;
    // Later pictures leave the reason of a refusal on the screen.
    [this.#isSeen, this.hasPicture, this.message, this.#tries] = [true, true, '', 0];
  }

  #hear(said: Said): void {
    switch (said.type) {
      case 'page':
        [this.url, this.title] = [said.url, said.title];
        break;
      case 'control':
        [this.driver, this.mayAct, this.offers] = [said.driver, said.may_act, said.offers ?? null];
        break;
      case 'menu':
        this.menu = said.items;
        break;
      case 'dialog':
        this.dialog = said.dialog;
        break;
      case 'refused':
        if (said.reason !== 'too_fast') this.message = said.detail;
        break;
      case 'hello':
        this.isController = said.role === 'controller';
        break;
    }
  }

  #send(message: object): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message));
  }

  #release(): void {
    this.#fingers.clear();
    this.#moves.clear();
    [this.mayAct, this.offers, this.menu, this.dialog] = [false, null, null, null];
  }

  act(...events: object[]): void {
    if (!this.mayAct) return;
    if (this.#isSeen) this.message = '';
    this.#send({ type: 'input', events });
  }

  changeDriver(): void {
    if (this.offers) this.#send({ type: this.offers });
  }

  /** A point of the page under a pointer, in CSS pixels of the viewport. */
  place({ clientX, clientY }: { clientX: number; clientY: number }): { x: number; y: number } {
    const box = this.#canvas?.getBoundingClientRect();
    if (!box || box.width === 0) return { x: 0, y: 0 };
    const within = (value: number, most: number) => Math.min(Math.max(value, 0), most);
    return {
      x: within(((clientX - box.left) / box.width) * this.size[0], this.size[0]),
      y: within(((clientY - box.top) / box.height) * this.size[1], this.size[1]),
    };
  }

  pointerDown(event: PointerEvent): void {
    const taken = new Set(this.#fingers.values());
    const finger = [...Array(FINGERS).keys()].find((number) => !taken.has(number));
    if (finger === undefined) return;
    this.#canvas?.setPointerCapture(event.pointerId);
    this.#fingers.set(event.pointerId, finger);
    this.act({ type: 'touch', finger, phase: 'begin', ...this.place(event) });
  }

  pointerMove(event: PointerEvent): void {
    const finger = this.#fingers.get(event.pointerId);
    if (finger === undefined) return;
    if (this.#moves.size === 0) requestAnimationFrame(() => this.#flush());
    this.#moves.set(finger, { type: 'touch', finger, phase: 'update', ...this.place(event) });
  }

  pointerUp(event: PointerEvent, phase: 'end' | 'cancel'): void {
    const finger = this.#fingers.get(event.pointerId);
    if (finger === undefined) return;
    this.#flush();
    this.#fingers.delete(event.pointerId);
    this.act({ type: 'touch', finger, phase, ...this.place(event) });
  }

  #flush(): void {
    if (this.#moves.size > 0) this.act(...this.#moves.values());
    this.#moves.clear();
  }

  wheel(event: WheelEvent): void {
    this.act({ type: 'wheel', ...this.place(event), delta_x: event.deltaX, delta_y: event.deltaY });
  }

  /** Returns whether the key belongs to the remote page. A text field reports letters by its `input` event, which input methods need. */
  key(event: KeyboardEvent, isInField = false): boolean {
    // The input method handles its own keys. Safari reports the confirming key as not composing, but with code 229.
    if (!this.mayAct || event.isComposing || event.keyCode === 229) return false;
    if (['Unidentified', 'Dead', 'Tab', 'Control', 'Alt', 'Meta', 'Shift'].includes(event.key)) return false;
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'v') return false;
    const held = [event.ctrlKey && 'Control', event.altKey && 'Alt', event.metaKey && 'Meta'].filter(Boolean);
    // A letter is already a capital.
    if (event.shiftKey && event.key.length > 1) held.push('Shift');
    if (isInField && held.length === 0 && event.key.length === 1) return false;
    this.act({ type: 'key', key: [...held, event.key].join('+') });
    return true;
  }

  text(text: string): void {
    if (text) this.act({ type: 'text', text });
  }

  choose(index: number | null): void {
    this.act({ type: 'choose', index });
  }

  answer(accept: boolean, text?: string): void {
    this.act({ type: 'answer', accept, ...(text === undefined ? {} : { text }) });
  }
}
