/** The build of rhea for browsers: it contains what Node.js has of its own. */
declare module 'rhea/dist/rhea-umd.js' {
  import type { Container } from 'rhea';
  const container: Container;
  export default container;
}
