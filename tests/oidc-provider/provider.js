// An identity provider on loopback (panva's oidc-provider), where the login hint determines the person.
//
//   node provider.js '{"port": 1234, "redirect_uri": "http://…", "claims_in_id_token": false}'
//
// The hint is a JSON object, in base64url: the claims of a person who signs in without a question, or {"denied": true} for a
// person who refuses; without a hint it is the `person` of the options. It prints a line when it listens, and ends with its
// standard input. It has its own keys, so that a restarted provider signs with others.

import { generateKeyPairSync } from 'node:crypto';

import Provider from 'oidc-provider';

const options = JSON.parse(process.argv[2]);
const people = new Map();
const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });

const provider = new Provider(`http://127.0.0.1:${options.port}`, {
  clients: [{
    client_id: 'kitfleet',
    client_secret: 'kitfleet-secret',
    redirect_uris: [options.redirect_uri],
  }],
  jwks: { keys: [privateKey.export({ format: 'jwk' })] },
  cookies: { keys: ['test'] },
  claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
  // The standard returns claims at the userinfo endpoint only; many providers put them into the ID token too.
  conformIdTokenClaims: !options.claims_in_id_token,
  features: { devInteractions: { enabled: false } },
  findAccount: (_, sub) => ({ accountId: sub, claims: () => people.get(sub) }),
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  ttl: { AccessToken: 60, AuthorizationCode: 60, Grant: 60, IdToken: 60, Interaction: 60, Session: 60 },
});

// The person of the hint consents to every request.
provider.use(async (ctx, next) => {
  if (!ctx.path.startsWith('/interaction/')) return next();
  const { params } = await provider.interactionDetails(ctx.req, ctx.res);
  const hint = params.login_hint && JSON.parse(Buffer.from(params.login_hint, 'base64url'));
  const { denied, ...claims } = hint || options.person;
  let result = { error: 'access_denied' };
  if (!denied) {
    people.set(claims.sub, claims);
    const grant = new provider.Grant({ accountId: claims.sub, clientId: params.client_id });
    grant.addOIDCScope(params.scope);
    result = { login: { accountId: claims.sub }, consent: { grantId: await grant.save() } };
  }
  return provider.interactionFinished(ctx.req, ctx.res, result);
});

provider.listen(options.port, '127.0.0.1', () => console.log('listening'));
process.stdin.on('end', () => process.exit()).resume();
