import type { NavigationGroup, Route } from '../lib/router.svelte';

/** Pages of the staff board. Each is loaded when it is first shown. */
export const ROUTES: Route[] = [
  { path: '/', title: 'Workers', page: () => import('./pages/Workers.svelte') },
  { path: '/workers/:id', title: 'Worker', page: () => import('./pages/Worker.svelte') },
  { path: '/capacity', title: 'Capacity', page: () => import('./pages/Capacity.svelte') },
  { path: '/sessions', title: 'Sessions', page: () => import('./pages/Sessions.svelte') },
  { path: '/sessions/:id', title: 'Session', page: () => import('./pages/Session.svelte') },
  { path: '/queues', title: 'Queues', page: () => import('./pages/Queues.svelte') },
  { path: '/dead-letters', title: 'Dead letters', page: () => import('./pages/DeadLetters.svelte') },
  { path: '/accounts', title: 'Accounts', page: () => import('./pages/Accounts.svelte') },
  { path: '/accounts/:id', title: 'Account', page: () => import('./pages/Account.svelte') },
  { path: '/orders', title: 'Orders', page: () => import('./pages/Orders.svelte') },
  { path: '/incidents', title: 'Incidents', page: () => import('./pages/Incidents.svelte') },
  { path: '/usage', title: 'Usage', page: () => import('./pages/Usage.svelte') },
  { path: '/storage', title: 'Storage', page: () => import('./pages/Storage.svelte') },
];

export const NAVIGATION: NavigationGroup[] = [
  {
    title: 'Service',
    links: [
      { path: '/', title: 'Workers', includes: '/workers' },
      { path: '/capacity', title: 'Capacity' },
      { path: '/sessions', title: 'Sessions' },
      { path: '/queues', title: 'Queues' },
      { path: '/dead-letters', title: 'Dead letters' },
      { path: '/storage', title: 'Storage' },
    ],
  },
  {
    title: 'Customers',
    links: [
      { path: '/accounts', title: 'Accounts' },
      { path: '/orders', title: 'Orders' },
      { path: '/usage', title: 'Usage' },
      { path: '/incidents', title: 'Incidents' },
    ],
  },
];
