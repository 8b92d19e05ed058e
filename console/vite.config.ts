import { fileURLToPath } from 'node:url';
import react from '@vitejs/plugin-react';
import { defineConfig } from 'vitest/config';

/** The platform that `npm run dev` forwards to; `ENMASSE_URL=http://127.0.0.1:8080 npm run dev`. */
const platform = process.env.ENMASSE_URL ?? 'http://127.0.0.1:8080';

/** Paths of the platform below /console/ that are not part of the page. */
const sessionPaths = '^/console/(session|login-methods|codes|oidc|ws)';

export default defineConfig({
  base: '/console/',
  plugins: [react()],
  resolve: { alias: { '@': fileURLToPath(new URL('./src', import.meta.url)) } },
  build: {
    outDir: fileURLToPath(new URL('../python/enmasse/console_assets', import.meta.url)),
    emptyOutDir: true,
    assetsDir: 'assets',
    // A strict Content-Security-Policy allows neither fonts nor scripts in data URLs.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: 'es2022',
  },
  server: {
    proxy: Object.fromEntries(
      [sessionPaths, '/api', '/apis', '/openapi', '/metrics', '/readyz', '/version'].map((path) => [
        path,
        { target: platform, changeOrigin: true },
      ]),
    ),
  },
  test: {
    environment: 'node',
    setupFiles: ['./src/test/setup.ts'],
    css: false,
    restoreMocks: true,
    server: { deps: { inline: [/@patternfly/] } },
  },
});
