// A profile, a sign-in by a popup, an upload and an extraction, with the SDK for TypeScript.
import { Kitfleet } from "@kitfleet/sdk";

const site = process.env.SITE!;
const client = new Kitfleet();
const profile = await client.profiles.create({ name: "walk.ts – Käufer" });
{
  await using session = await client.sessions.create({ profile_id: profile.id });
  await session.navigate(site);
  await session.getByRole("button", { name: "Sign in" }).tap();
  await session.waitForPage();
  await session.getByLabel("Name").fill("Zoë Müller");
  await session.getByRole("button", { name: "Continue" }).tap();
  await session.waitForText("Hello, Zoë Müller");
  await session.getByLabel("Receipt").upload({ name: "größe.txt", content: new TextEncoder().encode("abc") });
  await session.waitForText("größe.txt 3");
}
let values: Record<"greeting" | "products" | "price", unknown>;
{
  await using session = await client.sessions.create({ profile_id: profile.id });
  await session.navigate(site);
  values = await session.extract({
    greeting: "h1",
    products: { selector: "li", type: "list", extract: { name: { selector: "b", type: "text" } } },
    price: { selector: "li i", transform: "number" },
  });
}
await client.profiles.delete(profile.id);
// As Python writes it.
const products = (values.products as { name: string }[]).map(({ name }) => `{"name": "${name}"}`).join(", ");
console.log(`{"greeting": "${values.greeting}", "price": ${values.price}, "products": [${products}]}`);
