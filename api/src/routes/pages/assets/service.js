// Sends requests to the service and turns errors into messages for people.

/** Timeout of a request. */
const PATIENCE_MS = 30_000;

/** A failed request, with a message for people. */
export class Refusal extends Error {
  constructor(message, status = 0, fields = []) {
    super(message);
    this.status = status;
    this.fields = fields;
  }
}

/** Sends a request. Returns the body of the response, or throws a Refusal. */
export async function ask(method, path, { body, session, credentials = 'omit' } = {}) {
  const headers = {};
  if (body) headers['Content-Type'] = 'application/json';
  if (session) headers.Authorization = `Bearer ${session.token}`;
  const patience = new AbortController();
  const timer = setTimeout(() => patience.abort(), PATIENCE_MS);
  let response;
  let answer;
  try {
    response = await fetch(path, {
      method, headers, body: body && JSON.stringify(body), credentials, signal: patience.signal,
    });
    answer = await response.json().catch(() => ({}));
  } catch {
    throw new Refusal('The service could not be reached. Check your connection and try again.');
  } finally {
    clearTimeout(timer);
  }
  if (response.ok) return answer;
  throw new Refusal(inWords(response, answer), response.status, (answer.errors || []).map(({ field }) => field));
}

function inWords(response, problem) {
  if (response.status === 429) {
    return `Too many attempts. Please wait ${period(response.headers.get('Retry-After'))} and try again.`;
  }
  if (response.status >= 500) {
    const id = problem.request_id ? ` (Request ${problem.request_id})` : '';
    return `The service is temporarily unavailable. Please try again in a moment.${id}`;
  }
  if (problem.errors) return problem.errors.map(({ field, message }) => sentence(`${name(field)} ${message}`)).join(' ');
  return sentence(problem.detail || 'The service refused the request');
}

/** Display name of a request field. */
function name(field) {
  const names = { token: 'the link', email: 'the e-mail address', new_password: 'the password' };
  return names[field] || `the ${field.replace(/_/g, ' ')}`;
}

function sentence(text) {
  return `${text.charAt(0).toUpperCase()}${text.slice(1).replace(/[.\s]+$/, '')}.`;
}

function period(retryAfter) {
  const seconds = Number(retryAfter);
  if (!(seconds > 0)) return 'a minute';
  if (seconds === 1) return 'a second';
  return seconds < 100 ? `${seconds} seconds` : `${Math.ceil(seconds / 60)} minutes`;
}
