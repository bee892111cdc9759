// Figures of the service over time.

import { api, type Schemas, take } from '../../lib/api';

export type Series = Schemas['SampleSeries'];
export type Span = 'hour' | 'day';

const SPANS: Record<Span, { seconds: number; step: number }> = {
  hour: { seconds: 3_600, step: 60 },
  day: { seconds: 86_400, step: 600 },
};

export async function figures(names: string[], span: Span): Promise<Series[]> {
  const { seconds, step } = SPANS[span];
  const since = new Date(Date.now() - seconds * 1_000).toISOString();
  return (await take(api.GET('/v1/admin/samples', { params: { query: { names: names.join(','), since, step } } }))).data;
}

export interface Line {
  title: string;
  points: { at: number; value: number }[];
}

/** Lines of one metric. A counter is shown as its growth per minute. */
export function lines(all: Series[], metric: string, titleOf: (labels: string) => string = (labels) => labels || metric): Line[] {
  return all.filter(({ name }) => name.split('{')[0] === metric).map((series) => ({
    title: titleOf(/"([^"]*)"/.exec(series.name)?.[1] ?? ''),
    points: series.is_counter ? growth(series) : series.points.map(({ at, value }) => ({ at: Date.parse(at), value })),
  }));
}

/** The end of a process makes the sum smaller, which is no growth. */
function growth({ points }: Series): Line['points'] {
  return points.slice(1).map(({ at, value }, index) => {
    const before = points[index];
    const minutes = before ? (Date.parse(at) - Date.parse(before.at)) / 60_000 : 1;
    return { at: Date.parse(at), value: Math.max(0, value - (before?.value ?? value)) / minutes };
  });
}

/** How much a counter grew, over all its labels. */
export function total(all: Series[], metric: string): number {
  return all.filter(({ name }) => name.split('{')[0] === metric).reduce((sum, { points }) => {
    const grown = points.slice(1).reduce((more, { value }, index) => more + Math.max(0, value - (points[index]?.value ?? value)), 0);
    return sum + grown;
  }, 0);
}
