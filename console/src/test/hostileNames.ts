/** Names that a tenant may choose and that must be shown, quoted and sent as they are. */
export const HOSTILE_NAMES = [
  `it's "quoted"`,
  '<script>alert(1)</script>',
  'عربي-طلبات',
  '\u202egnp.exe',
  'L'.repeat(1024),
  'a$(reboot) `id` \\ ; |',
] as const;
