// What the service writes into its pages (`api/src/http/web_build.rs`).

interface Service {
  /** Identity providers of the deployment. */
  providers: { name: string; display_name: string }[];
  password_min_chars: number;
}

const written = document.querySelector<HTMLMetaElement>('meta[name=service]')?.content || '{}';

export const service: Service = { providers: [], password_min_chars: 12, ...(JSON.parse(written) as Partial<Service>) };
