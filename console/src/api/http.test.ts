import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { isLost, reportReached } from './connectivity';
import { ApiError, Unreachable } from './errors';
import { NO_SESSION, bindSession, noteInput, request, withQuery } from './http';

const answers = vi.fn<typeof fetch>();

beforeEach(() => {
  vi.stubGlobal('fetch', answers);
  answers.mockReset();
});

afterEach(() => {
  reportReached();
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

function lastHeaders(): Headers {
  return answers.mock.calls.at(-1)?.[1]?.headers as Headers;
}

function answer(status: number, body: unknown, type = 'application/json'): Response {
  return new Response(JSON.stringify(body), { status, headers: { 'content-type': type } });
}

describe('request', () => {
  it('sends the CSRF token with writes only', async () => {
    bindSession({ ...NO_SESSION, csrf: 'proof' });
    answers.mockImplementation(() => Promise.resolve(answer(200, {})));
    await request('GET', '/apis');
    expect(lastHeaders().get('X-CSRF-Token')).toBeNull();
    await request('POST', '/apis', { body: {} });
    expect(lastHeaders().get('X-CSRF-Token')).toBe('proof');
  });

  it('marks a request without a recent input as background', async () => {
    vi.useFakeTimers();
    answers.mockImplementation(() => Promise.resolve(answer(200, {})));
    noteInput();
    await request('GET', '/apis');
    expect(lastHeaders().get('X-Background')).toBeNull();
    vi.advanceTimersByTime(60_000);
    await request('GET', '/apis');
    expect(lastHeaders().get('X-Background')).toBe('1');
  });

  it('translates a Status with its causes', async () => {
    const cause = { reason: 'FieldValueInvalid', field: 'spec.address', message: 'must not be empty' };
    answers.mockResolvedValue(
      answer(422, { message: 'wrong', reason: 'Invalid', details: { causes: [cause] } }),
    );
    const error = await request('POST', '/apis', { body: {} }).catch((one: unknown) => one);
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({ status: 422, message: 'wrong', causes: [cause] });
    expect((error as ApiError).isQuota).toBe(false);
  });

  it('survives an error page that is no JSON', async () => {
    answers.mockResolvedValue(new Response('<h1>Bad</h1>', { status: 400 }));
    await expect(request('GET', '/apis')).rejects.toMatchObject({ status: 400 });
  });

  it('ends the session at 401', async () => {
    const ended = vi.fn();
    bindSession({ ...NO_SESSION, csrf: 'proof', onEnd: ended });
    answers.mockResolvedValue(answer(401, { message: 'over' }));
    await expect(request('GET', '/apis')).rejects.toBeInstanceOf(ApiError);
    expect(ended).toHaveBeenCalledOnce();
  });

  it.each([true, false])('renews the session that another tab has begun (same user: %s)', async (isSame) => {
    const renew = vi.fn(() => {
      const renewed = { ...NO_SESSION, user: isSame ? 'alice' : 'bob', csrf: 'new' };
      bindSession(renewed);
      return Promise.resolve(renewed);
    });
    bindSession({ ...NO_SESSION, user: 'alice', csrf: 'old', renew });
    answers.mockImplementation((_path, init) =>
      Promise.resolve(
        (init?.headers as Headers).get('X-CSRF-Token') === 'new'
          ? answer(201, { made: true })
          : answer(403, { message: 'send the header', details: { code: 'E2006' } }),
      ),
    );
    const written = request('POST', '/apis', { body: {} });
    if (isSame) expect(await written).toEqual({ made: true });
    else await expect(written).rejects.toThrow('Another account has logged in');
    expect(answers).toHaveBeenCalledTimes(isSame ? 2 : 1);
    expect(renew).toHaveBeenCalledOnce();
  });

  it('reports an outage, and its end', async () => {
    answers.mockRejectedValueOnce(new TypeError('network'));
    await expect(request('GET', '/apis')).rejects.toBeInstanceOf(Unreachable);
    expect(isLost()).toBe(true);
    answers.mockResolvedValueOnce(answer(200, {}));
    await request('GET', '/apis');
    expect(isLost()).toBe(false);
  });
});

describe('withQuery', () => {
  it('excludes absent values and repeats lists', () => {
    expect(withQuery('/a', { b: undefined, c: '', d: 0, e: ['x', 'y&z'] })).toBe('/a?d=0&e=x&e=y%26z');
  });
});
