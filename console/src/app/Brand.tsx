/** The mark and the name. */
export function Brand() {
  return (
    <span className="em-brand">
      <svg viewBox="0 0 32 32" width="28" height="28" aria-hidden="true">
        <rect width="32" height="32" rx="7" className="em-brand-mark" />
        <g fill="none" stroke="#fff" strokeWidth="2.6" strokeLinecap="round">
          <path d="M8 10h11M8 16h16M8 22h11" />
        </g>
        <circle cx="24" cy="10" r="2.2" fill="#fff" />
        <circle cx="24" cy="22" r="2.2" fill="#fff" />
      </svg>
      EnMasse
    </span>
  );
}
