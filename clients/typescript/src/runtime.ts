export const environment = (name: string): string | undefined => {
  try {
    return (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env?.[name] || undefined;
  } catch {
    // Deno without the permission to read the environment.
    return undefined;
  }
};

/** Loads a module of Node, which bundlers must leave alone. */
export const nodeModule = (name: string): Promise<unknown> => import(/* @vite-ignore */ /* webpackIgnore: true */ name);

const runtime = (globalThis as { process?: { versions?: { node?: string; bun?: string } }; Deno?: unknown }) ?? {};
export const isNode = Boolean(runtime.process?.versions?.node && !runtime.process.versions.bun && !runtime.Deno);
