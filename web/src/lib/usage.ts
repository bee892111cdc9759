// What usage is counted in.

import type { Schemas } from './api';

export type Kind = keyof Schemas['DayTotals'];

export const OPERATIONS: Kind[] = ['navigate', 'interact', 'wait', 'state_capture', 'screenshot_capture'];
export const KINDS: Kind[] = ['session_minute', ...OPERATIONS];
export const TITLES: Record<Kind, string> = {
  session_minute: 'Session minutes',
  navigate: 'Navigations',
  interact: 'Interactions',
  wait: 'Waits',
  state_capture: 'State reads',
  screenshot_capture: 'Screenshots',
};
