import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

declare const process: { env: Record<string, string | undefined> };

const service = process.env.KITFLEET_URL ?? 'http://127.0.0.1:8080';

export default defineConfig({
  base: '/app/',
  plugins: [svelte()],
  build: {
    target: 'es2022',
    // The policy of the pages allows no inline content.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  // `npm run dev` shows the application in front of a running service.
  server: { proxy: { '/v1': { target: service, ws: true, changeOrigin: true, headers: { origin: service } } } },
});
