// An identity provider on loopback: panva's oidc-provider, whose people are whoever the login hint says.
//
//   node provider.js '{"port": 1234, "redirect_uri": "http://…", "claims_in_id_token": false}'
//
// The hint is a JSON object, in base64url: the claims of somebody who then signs in without being asked, or
// {"denied": true} for somebody who does not want to; without a hint it is the `person` of the options. It prints a line when it listens, and ends with its standard input.
// Its keys are its own, so that one that is started again signs with others.

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
  // Whether people's claims are told on asking only, as the standard says, or in the ID token too, as many do.
  conformIdTokenClaims: !options.claims_in_id_token,
  features: { devInteractions: { enabled: false } },
  findAccount: (_, sub) => ({ accountId: sub, claims: () => people.get(sub) }),
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  ttl: { AccessToken: 60, AuthorizationCode: 60, Grant: 60, IdToken: 60, Interaction: 60, Session: 60 },
});

// Consents to whatever is asked of whoever the hint says.
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
