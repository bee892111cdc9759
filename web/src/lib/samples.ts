// An operation as the API call that does it, in the languages of the SDKs.

export interface Call {
  method: string;
  path: string;
  body?: unknown;
  /** Resource and method of the SDKs, such as `sessions` and `navigate`. */
  sdk?: { resource: string; method: string };
}

export type Language = 'curl' | 'typescript' | 'python';

export const LANGUAGES: { id: Language; title: string }[] = [
  { id: 'curl', title: 'curl' },
  { id: 'typescript', title: 'TypeScript' },
  { id: 'python', title: 'Python' },
];

export function sample(call: Call, language: Language): string {
  if (language === 'curl') return curl(call);
  return language === 'typescript' ? typescript(call) : python(call);
}

function curl({ method, path, body }: Call): string {
  const lines = [`curl -X ${method} "$KITFLEET_URL${path}"`, `  -H "Authorization: Bearer $KITFLEET_API_KEY"`];
  if (body !== undefined) lines.push(`  -H 'Content-Type: application/json'`, `  -d '${JSON.stringify(body, null, 2).replace(/'/g, `'\\''`)}'`);
  return lines.join(' \\\n');
}

/** ID in the path, which is the first argument of an SDK's method. */
function idOf(path: string): string | null {
  return /\/([a-z]+_[0-9a-f-]{36})/.exec(path)?.[1] ?? null;
}

function typescript({ path, body, sdk }: Call): string {
  const id = idOf(path);
  const call = sdk ?? { resource: 'sessions', method: path.split('/').pop() ?? '' };
  const values = [id && `'${id}'`, body !== undefined && JSON.stringify(body, null, 2).replace(/"([a-z_]+)":/g, '$1:')].filter(Boolean);
  const method = call.method.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  const resource = call.resource.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  return `import { Kitfleet } from '@kitfleet/sdk';\n\nconst client = new Kitfleet();\nawait client.${resource}.${method}(${values.join(', ')});`;
}

function python({ path, body, sdk }: Call): string {
  const id = idOf(path);
  const call = sdk ?? { resource: 'sessions', method: path.split('/').pop() ?? '' };
  const members = Object.entries((body ?? {}) as Record<string, unknown>).map(([name, value]) => `${name}=${literal(value)}`);
  const values = [...(id ? [`"${id}"`] : []), ...members];
  return `from kitfleet import Kitfleet\n\nclient = Kitfleet()\nclient.${call.resource}.${call.method}(${values.join(', ')})`;
}

function literal(value: unknown): string {
  return JSON.stringify(value, null, 2)
    .replace(/: true\b/g, ': True')
    .replace(/: false\b/g, ': False')
    .replace(/: null\b/g, ': None')
    .replace(/^true$/, 'True')
    .replace(/^false$/, 'False')
    .replace(/^null$/, 'None');
}
