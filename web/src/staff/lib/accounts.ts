import type { Schemas } from '../../lib/api';
import type { Tone } from '../../components/Status.svelte';

export const TIERS: Schemas['AccountTier'][] = ['free', 'solo_manual', 'team_manual', 'agency_manual', 'api_starter', 'api_builder', 'api_scale', 'enterprise'];

export const accountTone = (status: Schemas['AccountStatus']): Tone => ({ active: 'good', suspended: 'bad', deleted: 'quiet' } as const)[status];
