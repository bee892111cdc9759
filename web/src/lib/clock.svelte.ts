/** The present time, for "2 minutes ago". One timer for all. */
class Clock {
  now = $state(Date.now());

  constructor() {
    setInterval(() => {
      if (!document.hidden) this.now = Date.now();
    }, 5_000);
  }
}

export const clock = new Clock();
