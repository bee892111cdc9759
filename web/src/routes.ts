import type { NavigationGroup, Route } from './lib/router.svelte';

/** Pages of the application. Each is loaded when it is first shown. */
export const ROUTES: Route[] = [
  { path: '/', title: 'Overview', page: () => import('./pages/Overview.svelte') },
  { path: '/sessions', title: 'Sessions', page: () => import('./pages/Sessions.svelte') },
  { path: '/sessions/:id', title: 'Session', page: () => import('./pages/Session.svelte') },
  { path: '/agents', title: 'Agents', page: () => import('./pages/Agents.svelte'), needsAdmin: true },
  { path: '/agents/:id', title: 'Agent', page: () => import('./pages/Agent.svelte'), needsAdmin: true },
  { path: '/approvals', title: 'Approvals', page: () => import('./pages/Approvals.svelte'), needsAdmin: true },
  { path: '/recipes', title: 'Recipes', page: () => import('./pages/Recipes.svelte') },
  { path: '/recipes/:id', title: 'Recipe', page: () => import('./pages/Recipe.svelte') },
  { path: '/profiles', title: 'Profiles', page: () => import('./pages/Profiles.svelte') },
  { path: '/profiles/:id', title: 'Profile', page: () => import('./pages/Profile.svelte') },
  { path: '/proxies', title: 'Proxies', page: () => import('./pages/Proxies.svelte') },
  { path: '/webhooks', title: 'Webhooks', page: () => import('./pages/Webhooks.svelte') },
  { path: '/webhooks/:id', title: 'Webhook endpoint', page: () => import('./pages/Webhook.svelte') },
  { path: '/deliveries', title: 'Deliveries', page: () => import('./pages/Deliveries.svelte') },
  { path: '/deliveries/:id', title: 'Delivery', page: () => import('./pages/Delivery.svelte') },
  { path: '/keys', title: 'API keys', page: () => import('./pages/Keys.svelte') },
  { path: '/team', title: 'Team', page: () => import('./pages/Team.svelte') },
  { path: '/usage', title: 'Usage', page: () => import('./pages/Usage.svelte') },
  { path: '/audit-log', title: 'Audit log', page: () => import('./pages/AuditLog.svelte') },
  { path: '/billing', title: 'Billing', page: () => import('./pages/Billing.svelte') },
  { path: '/settings', title: 'Settings', page: () => import('./pages/Settings.svelte') },
];

export const NAVIGATION: NavigationGroup[] = [
  {
    title: 'Browsers',
    links: [
      { path: '/', title: 'Overview', icon: 'M2.5 7 8 2.5 13.5 7v6.5h-11zM6.5 13.5v-4h3v4' },
      { path: '/sessions', title: 'Sessions', icon: 'M5 1.5h6a1 1 0 0 1 1 1v11a1 1 0 0 1-1 1H5a1 1 0 0 1-1-1v-11a1 1 0 0 1 1-1ZM7 12.5h2' },
      { path: '/agents', title: 'Agents', icon: 'M2.5 3.5h11v7h-6l-3 3v-3h-2zM5.5 7h0M8 7h0m2.5 0h0' },
      { path: '/approvals', title: 'Approvals', icon: 'M8 1.5 13 3v4.5c0 3.5-2 5.5-5 7-3-1.5-5-3.5-5-7V3zM5.5 8 7.5 10l3-3.5' },
      { path: '/recipes', title: 'Recipes', icon: 'M4 1.5h8v13H4zM6.5 5h3m-3 3h3m-3 3h1.5' },
      { path: '/profiles', title: 'Profiles', icon: 'M8 7.5a2.8 2.8 0 1 0 0-5.6 2.8 2.8 0 0 0 0 5.6ZM2.5 14c.5-3 2.7-4.5 5.5-4.5s5 1.5 5.5 4.5' },
    ],
  },
  {
    title: 'Connect',
    links: [
      { path: '/webhooks', title: 'Webhooks', icon: 'M6 10a3 3 0 1 1-3.5-3M6 10h4.5M8 5.5a2.5 2.5 0 1 1 2.5 1M8 5.5 5.5 10m7 2.5a2.5 2.5 0 1 0-2-2.5' },
      { path: '/deliveries', title: 'Deliveries', icon: 'M1.5 8.5 14.5 2l-4 12-3-5zm6 .5 7-7' },
      { path: '/proxies', title: 'Proxies', icon: 'M2 5h10m0 0L9.5 2.5M12 5 9.5 7.5M14 11H4m0 0 2.5-2.5M4 11l2.5 2.5' },
    ],
  },
  {
    title: 'Account',
    links: [
      { path: '/keys', title: 'API keys', icon: 'M10.5 8.5a3.2 3.2 0 1 0-3-2L2 12v2h2.5v-1.5H6V11h1.5l1-1' },
      { path: '/team', title: 'Team', icon: 'M6 7.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5ZM1.5 13.5c.3-2.5 2-4 4.5-4s4.2 1.5 4.5 4M10.5 2.7a2.5 2.5 0 0 1 0 4.6m1.5 2.5c1.5.6 2.3 1.9 2.5 3.7' },
      { path: '/usage', title: 'Usage', icon: 'M2 14h12M4 14V9m4 5V3m4 11V6.5' },
      { path: '/audit-log', title: 'Audit log', icon: 'M2.5 8A5.5 5.5 0 1 1 4 12m-1.5-.5V8m0 0h0M8 5v3.5l2.5 1.5' },
      { path: '/billing', title: 'Billing', icon: 'M2 3.5h12v9H2zM2 6.5h12M4.5 10H7' },
      { path: '/settings', title: 'Settings', icon: 'M2 5h6m4 0h2M2 11h2m4 0h6M10 7a2 2 0 1 0 0-4 2 2 0 0 0 0 4ZM6 13a2 2 0 1 0 0-4 2 2 0 0 0 0 4Z' },
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
