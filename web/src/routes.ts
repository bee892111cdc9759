import type { Route } from './lib/router.svelte';

/** Pages of the application. Each is loaded when it is first shown. */
export const ROUTES: Route[] = [
  { path: '/', title: 'Overview', page: () => import('./pages/Overview.svelte') },
  { path: '/sessions', title: 'Sessions', page: () => import('./pages/Sessions.svelte') },
  { path: '/sessions/:id', title: 'Session', page: () => import('./pages/Session.svelte') },
  { path: '/keys', title: 'API keys', page: () => import('./pages/Keys.svelte') },
  { path: '/team', title: 'Team', page: () => import('./pages/Team.svelte') },
  { path: '/usage', title: 'Usage', page: () => import('./pages/Usage.svelte') },
  { path: '/audit-log', title: 'Audit log', page: () => import('./pages/AuditLog.svelte') },
  { path: '/billing', title: 'Billing', page: () => import('./pages/Billing.svelte') },
  { path: '/settings', title: 'Settings', page: () => import('./pages/Settings.svelte') },
];

/** Groups of the navigation. */
export const NAVIGATION: { title: string; links: { path: string; title: string }[] }[] = [
  {
    title: 'Browsers',
    links: [
      { path: '/', title: 'Overview' },
      { path: '/sessions', title: 'Sessions' },
    ],
  },
  {
    title: 'Account',
    links: [
      { path: '/keys', title: 'API keys' },
      { path: '/team', title: 'Team' },
      { path: '/usage', title: 'Usage' },
      { path: '/audit-log', title: 'Audit log' },
      { path: '/billing', title: 'Billing' },
      { path: '/settings', title: 'Settings' },
    ],
  },
];

/** Pages that the key "g" and another key open. */
export const SHORTCUTS: { key: string; path: string; title: string }[] = [
  { key: 'o', path: '/', title: 'Overview' },
  { key: 's', path: '/sessions', title: 'Sessions' },
  { key: 'k', path: '/keys', title: 'API keys' },
  { key: 't', path: '/team', title: 'Team' },
  { key: 'u', path: '/usage', title: 'Usage' },
  { key: 'l', path: '/audit-log', title: 'Audit log' },
  { key: 'b', path: '/billing', title: 'Billing' },
  { key: ',', path: '/settings', title: 'Settings' },
];
