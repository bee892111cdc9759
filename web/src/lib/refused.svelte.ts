// Messages of the service about the value of a control.

import { tick } from 'svelte';
import { fieldSentence, Refusal } from './api';

/** The message about a field of a form. While it is shown, the summary of the form leaves it out. */
export class FieldMessage {
  #error: () => Error | null | undefined;
  #name: () => string;

  constructor(error: () => Error | null | undefined, name: () => string, container: () => HTMLElement | undefined) {
    [this.#error, this.#name] = [error, name];
    $effect.pre(() => {
      const [refusal, field] = [this.#error(), this.#name()];
      if (!(refusal instanceof Refusal) || !(field in refusal.fields)) return;
      refusal.shown.add(field);
      void tick().then(() => reveal(container()));
      return () => void refusal.shown.delete(field);
    });
  }

  get text(): string | undefined {
    const error = this.#error();
    const message = error instanceof Refusal ? error.fields[this.#name()] : undefined;
    return message === undefined ? undefined : fieldSentence(message);
  }
}

/** Brings the first wrong field of the form into view, and moves the focus to it. */
function reveal(field: HTMLElement | undefined): void {
  const first = field?.closest('form')?.querySelector<HTMLElement>('[aria-invalid=true], [data-invalid]');
  if (!first || !field?.contains(first)) return;
  const part = first.closest('details');
  if (part) part.open = true;
  field.scrollIntoView({ block: 'nearest' });
  (first.matches('fieldset') ? first.querySelector('input') : first)?.focus({ preventScroll: true });
}
