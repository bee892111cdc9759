import type { Route } from './lib/router.svelte';

/** Pages of the application. Each is loaded when it is first shown. */
export const ROUTES: Route[] = [
  { path: '/', title: 'Overview', page: () => import('./pages/Overview.svelte') },
  { path: '/sessions', title: 'Sessions', page: () => import('./pages/Sessions.svelte') },
  { path: '/sessions/:id', title: 'Session', page: () => import('./pages/Session.svelte') },
  { path: '/agents', title: 'Agents', page: () => import('./pages/Agents.svelte') },
  { path: '/agents/:id', title: 'Agent', page: () => import('./pages/Agent.svelte') },
  { path: '/approvals', title: 'Approvals', page: () => import('./pages/Approvals.svelte') },
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

/** Groups of the navigation. */
export const NAVIGATION: { title: string; links: { path: string; title: string }[] }[] = [
  {
    title: 'Browsers',
    links: [
      { path: '/', title: 'Overview' },
      { path: '/sessions', title: 'Sessions' },
      { path: '/agents', title: 'Agents' },
      { path: '/approvals', title: 'Approvals' },
      { path: '/recipes', title: 'Recipes' },
      { path: '/profiles', title: 'Profiles' },
    ],
  },
  {
    title: 'Connect',
    links: [
      { path: '/webhooks', title: 'Webhooks' },
      { path: '/deliveries', title: 'Deliveries' },
      { path: '/proxies', title: 'Proxies' },
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
