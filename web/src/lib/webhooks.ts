// Events and deliveries of webhooks.

import type { Schemas } from './api';

export type Event = Schemas['SubscribableEventType'];
export type Delivery = Schemas['WebhookDelivery'];

export const EVENTS: { id: Event; text: string }[] = [
  { id: 'session.completed', text: 'A session ended.' },
  { id: 'session.failed', text: 'A session or one of its operations failed.' },
  { id: 'session.challenge_detected', text: 'A page asks for something that a person must do.' },
  { id: 'session.egress_capability_changed', text: 'What the proxy of a session can do has changed.' },
  { id: 'session.profile_save_failed', text: 'The data of a session was not saved in its profile.' },
  { id: 'api_key.revoked', text: 'An API key was revoked.' },
  { id: 'crypto.order.paid', text: 'A crypto order was paid.' },
  { id: 'crypto.order.failed', text: 'A crypto order failed.' },
];

export const STATUSES: Schemas['WebhookDeliveryStatus'][] = ['pending', 'in_flight', 'delivered', 'failed', 'dlq'];

export const statusName = (status: Schemas['WebhookDeliveryStatus']): string => (status === 'dlq' ? 'dead letter' : status.replace('_', ' '));

export function stateOf({ active, disabled_at }: Schemas['WebhookEndpoint']): 'active' | 'paused' | 'disabled' {
  if (disabled_at) return 'disabled';
  return active ? 'active' : 'paused';
}
