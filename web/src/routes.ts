import type { Route } from './lib/router.svelte';

/** Pages of the application. Each is loaded when it is first shown. */
export const ROUTES: Route[] = [
  { path: '/', title: 'Overview', page: () => import('./pages/Overview.svelte') },
  { path: '/sessions', title: 'Sessions', page: () => import('./pages/Sessions.svelte') },
  { path: '/sessions/:id', title: 'Session', page: () => import('./pages/Session.svelte') },
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
];
