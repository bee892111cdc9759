// Choices of the person that concern this browser only.

const STORED = 'kitfleet.preferences';

/** Kinds of notifications, by the beginning of the event's name. */
export const GROUPS: { id: string; title: string; prefixes: string[] }[] = [
  { id: 'sessions', title: 'Sessions and recordings', prefixes: ['session.', 'recording.', 'challenge.'] },
  { id: 'agents', title: 'Agents', prefixes: ['agent_'] },
  { id: 'profiles', title: 'Profiles', prefixes: ['profile.'] },
  { id: 'webhooks', title: 'Webhooks', prefixes: ['webhook_'] },
  { id: 'account', title: 'Keys, team and plan', prefixes: ['api_key.', 'team.', 'subscription.', 'account.'] },
];

interface Stored {
  hidden: string[];
  singleKeys: boolean;
}

class Preferences {
  #stored = $state.raw<Stored>(read());

  get singleKeys(): boolean {
    return this.#stored.singleKeys;
  }

  set singleKeys(singleKeys: boolean) {
    this.#keep({ ...this.#stored, singleKeys });
  }

  shows(group: string): boolean {
    return !this.#stored.hidden.includes(group);
  }

  show(group: string, isShown: boolean): void {
    const others = this.#stored.hidden.filter((id) => id !== group);
    this.#keep({ ...this.#stored, hidden: isShown ? others : [...others, group] });
  }

  /** Whether the notification centre shows an event. Operations are too many. */
  wants(event: string): boolean {
    if (event.startsWith('operation.')) return false;
    const group = GROUPS.find(({ prefixes }) => prefixes.some((prefix) => event.startsWith(prefix)));
    return !group || this.shows(group.id);
  }

  #keep(stored: Stored): void {
    this.#stored = stored;
    localStorage.setItem(STORED, JSON.stringify(stored));
  }
}

function read(): Stored {
  const fresh: Stored = { hidden: [], singleKeys: true };
  try {
    return { ...fresh, ...(JSON.parse(localStorage.getItem(STORED) ?? '{}') as Partial<Stored>) };
  } catch {
    return fresh;
  }
}

export const preferences = new Preferences();
