/** One wrong field of a request, by its path in the document (`spec.address`). */
export interface FieldCause {
  field: string;
  message: string;
  reason?: string;
}

/** A failure `Status` of the API. The message is one line that ends with the remedy. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly reason = '',
    readonly causes: readonly FieldCause[] = [],
    readonly retryAfterSeconds: number | null = null,
    /** The platform's own code, which stays when the text changes. */
    readonly code = '',
  ) {
    super(message);
    this.name = 'ApiError';
  }

  get isMissing(): boolean {
    return this.status === 404;
  }

  get isForbidden(): boolean {
    return this.status === 403;
  }

  /** Whether a quota, not a right, refused the request. */
  get isQuota(): boolean {
    return this.causes.some((cause) => cause.reason === 'QuotaExceeded');
  }
}

/** The platform did not answer: no network, or it is starting or stopping. */
export class Unreachable extends Error {
  constructor() {
    super('The platform does not answer. The console tries again until it does.');
    this.name = 'Unreachable';
  }
}

interface StatusDocument {
  message?: string;
  reason?: string;
  details?: { causes?: FieldCause[]; retryAfterSeconds?: number; code?: string };
}

/** Translate a response that is not a success. */
export function errorOf(status: number, body: string): ApiError {
  let document: StatusDocument = {};
  try {
    const parsed: unknown = JSON.parse(body);
    if (typeof parsed === 'object' && parsed !== null) document = parsed;
  } catch {
    // A proxy in front of the platform answers with a page of its own.
  }
  return new ApiError(
    status,
    document.message ?? `The platform answered with status ${status}.`,
    document.reason,
    document.details?.causes ?? [],
    document.details?.retryAfterSeconds ?? null,
    document.details?.code,
  );
}

/** The text of an error for a person. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Whether what a page is about does not exist any more. */
export function isDeleted(error: unknown): boolean {
  return error instanceof ApiError && error.isMissing;
}

/** Whether the platform refused a selector or filter, so that the person must correct it. */
export function isRefusedExpression(error: unknown): boolean {
  return error instanceof ApiError && [400, 422].includes(error.status);
}
