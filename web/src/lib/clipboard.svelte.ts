// Copies texts, and says for a moment that it has.

const SHOWN_MS = 2_000;

export class Clipboard {
  state = $state<'ready' | 'copied' | 'refused'>('ready');
  readonly label = $derived({ ready: 'Copy', copied: 'Copied', refused: 'Not copied' }[this.state]);

  async copy(text: string): Promise<void> {
    try {
      // Browsers offer the clipboard to pages that came over TLS or from this machine.
      if (navigator.clipboard) await navigator.clipboard.writeText(text);
      else copyBySelection(text);
      this.state = 'copied';
    } catch {
      this.state = 'refused';
    }
    setTimeout(() => (this.state = 'ready'), SHOWN_MS);
  }
}

function copyBySelection(text: string): void {
  const area = document.createElement('textarea');
  area.value = text;
  area.className = 'visually-hidden';
  // A dialog makes everything outside of it inert.
  (document.querySelector('dialog:modal:last-of-type') ?? document.body).append(area);
  const before = document.activeElement;
  area.select();
  const hasCopied = document.execCommand('copy');
  area.remove();
  if (before instanceof HTMLElement) before.focus();
  if (!hasCopied) throw new Error('refused');
}
