// Steps of agents and recipes in words.

import { plain } from './format';

/** The members that describe a step depend on its kind (contract: agents 16, recipes 7). */
export interface Step {
  kind: string;
  id?: string;
  status?: string;
  needs_approval?: boolean;
  error?: string | null;
  result?: Record<string, unknown> | null;
  [member: string]: unknown;
}

const text = (value: unknown): string => (typeof value === 'string' ? plain(value) : typeof value === 'number' ? String(value) : '');

function member(value: unknown, name: string): unknown {
  return value && typeof value === 'object' ? (value as Record<string, unknown>)[name] : undefined;
}

function element(step: unknown): string {
  const target = member(step, 'target') ?? step;
  // Elements without a role are called generic, which says nothing.
  return text(member(target, 'description')).replace(/^generic (?=")/, '') || text(member(target, 'selector'));
}

function condition(value: unknown): string {
  switch (member(value, 'kind')) {
    case 'selector': return `for ${element(value)}`;
    case 'selector_hidden': return `until ${element(value)} is gone`;
    case 'url_matches': return `until the address matches ${text(member(value, 'pattern'))}`;
    case 'time': return `${text(member(value, 'ms'))} ms`;
    case 'download': return 'for a download';
    case 'page': return 'for a new page';
    default: return '';
  }
}

function direction(step: Step): string {
  const [x, y] = [Number(step.delta_x ?? 0), Number(step.delta_y ?? 0)];
  const parts = [y && `${Math.abs(y)} px ${y > 0 ? 'down' : 'up'}`, x && `${Math.abs(x)} px ${x > 0 ? 'right' : 'left'}`];
  return parts.filter(Boolean).join(', ');
}

/** A sentence that begins with a verb: `Tap button "Send"`. */
export function describe(step: Step): string {
  const where = element(step);
  switch (step.kind) {
    case 'navigate': return `Open ${text(step.url)}`;
    case 'tap': return `${step.hold_ms ? 'Press and hold' : step.count === 2 ? 'Double-tap' : 'Tap'} ${where}`;
    case 'hover': return `Point at ${where}`;
    case 'check': return `${step.checked ? 'Check' : 'Uncheck'} ${where}`;
    case 'type': return `Type a text into ${where}`;
    case 'fill': return `Fill ${where}`;
    case 'press': return where ? `Press ${text(step.key)} in ${where}` : `Press ${text(step.key)}`;
    case 'select': return `Select “${text(step.option)}” in ${where}`;
    case 'upload': return `Upload ${text(step.file)} into ${where}`;
    case 'drag': return step.to ? `Drag ${where} to ${element(step.to)}` : `Drag ${where} ${direction(step)}`.trim();
    case 'swipe': return `Swipe ${text(step.direction)}${where ? ` on ${where}` : ''}`;
    case 'scroll': return `Scroll ${direction(step)}${where ? ` in ${where}` : ''}`;
    case 'wait': return `Wait ${condition(step.condition)}`.trim();
    case 'capture': return `Capture a ${text(step.capture).replace('_', ' ')}`;
    case 'extract': return `Read ${(Array.isArray(step.items) ? step.items : []).map((item) => text(member(item, 'name'))).join(', ')}`;
    case 'dialog': return `${step.accept ? 'Accept' : 'Dismiss'} the dialog${step.dialog ? ` “${text(step.dialog)}”` : ''}`;
    case 'activate_page': return `Switch to ${text(member(step.page, 'description')) || text(step.description)}`;
    case 'close_page': return `Close ${text(member(step.page, 'description')) || text(step.description)}`;
    case 'set_location': return `Set the location to ${text(step.latitude)}, ${text(step.longitude)}`;
    case 'back': return 'Go back';
    case 'forward': return 'Go forward';
    case 'reload': return 'Reload the page';
    default: return step.kind.replace(/_/g, ' ');
  }
}

/** The same after "wants to". */
export function wish(step: Step): string {
  const words = describe(step);
  return words.charAt(0).toLowerCase() + words.slice(1);
}

/** Values that a step has read, by name. */
export function values(step: Step): [string, string][] {
  const read = member(step.result, 'value');
  if (step.kind !== 'extract' || !read || typeof read !== 'object') return [];
  return Object.entries(read).map(([name, value]) => [plain(name), plain(typeof value === 'string' ? value : JSON.stringify(value))]);
}
