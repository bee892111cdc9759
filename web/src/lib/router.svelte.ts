// Addresses below /app/, or below /staff/ on the board of staff. A page is a lazily loaded component.

import type { Component } from 'svelte';

/** The router passes the parameters of the path, which are the properties of the page. */
type Loader = () => Promise<{ default: Component<any> }>;

export interface Route {
  /** With `:name` for a parameter. */
  path: string;
  title: string;
  page: Loader;
  /** Set for pages that members of a team may not see. */
  needsAdmin?: true;
}

/** Links of the navigation under a title. */
export interface NavigationGroup {
  title: string;
  /** An icon is the path of a drawing of 16 by 16. `includes` is another path that marks the link. */
  links: { path: string; title: string; icon?: string; includes?: string }[];
}

const BASE = location.pathname.split('/')[1] === 'staff' ? '/staff' : '/app';

class Router {
  path = $state(current());
  query = $state.raw(new URLSearchParams(location.search));

  constructor() {
    addEventListener('popstate', () => this.#read());
    addEventListener('click', (event) => this.#follow(event));
  }

  go(path: string, { replace = false } = {}): void {
    history[replace ? 'replaceState' : 'pushState'](null, '', BASE + path);
    this.#read();
  }

  /** Changes a parameter of the query. An empty value removes it. */
  set(name: string, value: string): void {
    const query = new URLSearchParams(this.query);
    if (value) query.set(name, value);
    else query.delete(name);
    const text = query.toString();
    this.go(this.path + (text && `?${text}`), { replace: true });
  }

  #read(): void {
    this.path = current();
    this.query = new URLSearchParams(location.search);
  }

  #follow(event: MouseEvent): void {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element | null)?.closest('a');
    if (!link || link.target || link.hasAttribute('download') || link.origin !== location.origin) return;
    if (link.pathname !== BASE && !link.pathname.startsWith(`${BASE}/`)) return;
    event.preventDefault();
    this.go(link.pathname.slice(BASE.length) + link.search);
  }
}

function current(): string {
  return location.pathname.slice(BASE.length).replace(/\/+$/, '') || '/';
}

export const router = new Router();

/** Address of a page, for links. */
export function to(path: string): string {
  return BASE + path;
}

/** The matching route and its parameters. */
export function match(routes: Route[], path: string): { route: Route; parameters: Record<string, string> } | null {
  for (const route of routes) {
    const parameters = parametersOf(route.path, path);
    if (parameters) return { route, parameters };
  }
  return null;
}

function parametersOf(pattern: string, path: string): Record<string, string> | null {
  const [expected, given] = [pattern.split('/'), path.split('/')];
  if (expected.length !== given.length) return null;
  const parameters: Record<string, string> = {};
  for (const [index, part] of expected.entries()) {
    const value = given[index] ?? '';
    if (!part.startsWith(':')) {
      if (part !== value) return null;
      continue;
    }
    const text = decoded(value);
    if (!text) return null;
    parameters[part.slice(1)] = text;
  }
  return parameters;
}

/** Null for an address that a person or another page has written wrongly, and for a parameter that would change the path of a request. */
function decoded(part: string): string | null {
  try {
    const text = decodeURIComponent(part);
    return /[/\\?#]|^\.+$/.test(text) ? null : text;
  } catch {
    return null;
  }
}
