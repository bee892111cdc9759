// Files that the service makes, such as exports and traces.

import { takeBlob } from './api';

/** Downloads from a route that needs the person's credential, which a link cannot send. */
export async function saveFrom(path: string, fileName: string): Promise<void> {
  save(await takeBlob(path), fileName);
}

/** Saves a file on the person's device. */
export function save(content: Blob, fileName: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  link.download = fileName;
  link.click();
  // The browser reads the address after the click.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
