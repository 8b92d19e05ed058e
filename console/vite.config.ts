import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import react from '@vitejs/plugin-react';
import type { Plugin } from 'vite';
import { defineConfig } from 'vitest/config';

/** The platform that `npm run dev` forwards to; `ENMASSE_URL=http://127.0.0.1:8080 npm run dev`. */
const platform = process.env.ENMASSE_URL ?? 'http://127.0.0.1:8080';

/** Paths of the platform below /console/ that are not part of the page. */
const sessionPaths = '^/console/(session|login-methods|codes|oidc|ws)';

const BASE_STYLES = '@patternfly/react-core/dist/styles/base.css';

/** Rules of PatternFly's base styles that the console does not use: its fonts, its icon font, and themes that cannot
 * be chosen. They are half of the first page's styles. Each pattern must match, so a new release cannot go unnoticed. */
const UNUSED_RULES = [
  /@font-face \{[^}]*\}/g,
  /^\.pf-v6-pficon[^{}]*\{[^}]*\}/gm,
  /^:root:where\([^)]*theme-(?:felt|glass|high-contrast)[^)]*\) \{[^}]*\}/gm,
];

function withoutUnusedStyles(): Plugin {
  return {
    name: 'without-unused-styles',
    enforce: 'pre',
    transform(code, id) {
      if (!id.split('?')[0]?.endsWith(BASE_STYLES)) return null;
      return UNUSED_RULES.reduce((rest, pattern) => {
        if (rest.search(pattern) < 0) throw new Error(`${BASE_STYLES} has nothing like ${String(pattern)}`);
        return rest.replace(pattern, '');
      }, code);
    },
  };
}

/** Writes each file compressed beside it, so that the platform need not do that before the first page. */
function compressed(): Plugin {
  return {
    name: 'compressed',
    apply: 'build',
    writeBundle({ dir = '' }, bundle) {
      for (const name of Object.keys(bundle)) {
        if (!/\.(js|css|html|svg)$/.test(name)) continue;
        const file = join(dir, name);
        writeFileSync(`${file}.gz`, gzipSync(readFileSync(file), { level: 9 }));
      }
    },
  };
}

export default defineConfig({
  base: '/console/',
  plugins: [react(), withoutUnusedStyles(), compressed()],
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
