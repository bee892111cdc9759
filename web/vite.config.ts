import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig, loadEnv, type Plugin } from 'vite';

const service = loadEnv('', '.', 'KITFLEET_').KITFLEET_URL ?? 'http://127.0.0.1:8080';

/** While developing, pages have the same addresses as in the service. */
const PAGES: [RegExp, string][] = [
  [/^\/staff(\/|$)/, 'staff'],
  [/^\/(activate|verify-email|magic-link|reset-password|confirm-sign-in|confirm-email|team\/accept)(\?|$)/, 'links'],
  [/^\/live\//, 'live'],
];

function addresses(): Plugin {
  return {
    name: 'addresses',
    configureServer: (server) => {
      server.middlewares.use((request: { url?: string }, _: unknown, next: () => void) => {
        const page = PAGES.find(([pattern]) => pattern.test(request.url ?? ''));
        if (page) request.url = `/app/${page[1]}.html`;
        next();
      });
    },
  };
}

/** Also styles of components that several pages of the board share. */
const isOfStaff = (name: string): boolean => /(^|\/)(src\/staff\/|staff\.|(Change|Facts|Tiles|History|figures)\.css$)/.test(name);

export default defineConfig({
  base: '/app/',
  plugins: [svelte(), addresses()],
  build: {
    target: 'es2022',
    // The policy of the pages allows no inline content.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      input: ['index.html', 'staff.html', 'links.html', 'live.html', 'reading.html'],
      output: {
        // The service refuses these files to other credentials than those of staff.
        entryFileNames: ({ name }) => `assets/${name === 'staff' ? 'staff/' : ''}[name]-[hash].js`,
        chunkFileNames: ({ moduleIds }) => `assets/${moduleIds.some(isOfStaff) ? 'staff/' : ''}[name]-[hash].js`,
        assetFileNames: ({ originalFileNames, names }) => `assets/${[...originalFileNames, ...names].some(isOfStaff) ? 'staff/' : ''}[name]-[hash][extname]`,
      },
    },
  },
  // `npm run dev` shows the application in front of a running service.
  server: { proxy: { '/v1': { target: service, ws: true, changeOrigin: true, headers: { origin: service } } } },
});
