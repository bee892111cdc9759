//! `kitfleet up` prints it when it is ready.

use std::path::{Path, PathBuf};

use crate::owner::Owner;

/// A session by curl, with tools that every machine has. The README shows the same commands.
const FIRST_SESSION: &str = r#"  URL={base_url} KEY=$(cat {key_file})
  call() { curl -fsS -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' "$@"; }
  SESSION=$(call "$URL/v1/sessions" -d '{}' | grep -o 'ses_[0-9a-f-]*' | head -n 1)
  call "$URL/v1/sessions/$SESSION/navigate" -d '{"url": "http://welcome.kitfleet.internal/"}'
  call "$URL/v1/sessions/$SESSION/capture" -d '{"kind": "screenshot"}' |
    sed 's/.*"content":"\([^"]*\)".*/\1/' | base64 -d > screenshot.png
  call -X DELETE "$URL/v1/sessions/$SESSION""#;

/// A link to the dashboard, which signs the local owner in once.
pub enum SignIn {
    Link(String),
    /// The file that contains the link.
    In(PathBuf),
}

/// The only output that shows a new key.
pub fn text(base_url: &str, key_file: &Path, owner: &Owner, sign_in: Option<&SignIn>) -> String {
    let file = quoted(key_file);
    let key = match owner {
        Owner::New(key) => format!("API key, shown only now and saved in {file}:\n\n  {}", key.reveal()),
        Owner::Kept => format!("The API key is in {file}."),
        Owner::Elsewhere(account) => format!(
            "The database has accounts, but {file} holds no working key. To create a key for the oldest account:\n\n  \
             kitfleet key mint {account} --name laptop --scopes account_owner"
        ),
    };
    let example = match owner {
        Owner::Elsewhere(_) => String::new(),
        Owner::New(_) | Owner::Kept => {
            let commands = FIRST_SESSION.replace("{base_url}", base_url).replace("{key_file}", &file);
            format!("\n\nA session, a page and its screenshot:\n\n{commands}")
        }
    };
    let dashboard = match sign_in {
        Some(SignIn::Link(link)) => {
            format!(
                "Dashboard: open this link to sign in. It works once, within an hour; `kitfleet account sign-in-link` prints another.\n\n  {link}\n\n"
            )
        }
        Some(SignIn::In(file)) => {
            format!(
                "Dashboard: the link in {} signs in once, within an hour; `kitfleet account sign-in-link` prints another.\n\n",
                quoted(file)
            )
        }
        None => format!("Dashboard: {base_url}/app/\n\n"),
    };
    format!("\nKitfleet is ready at {base_url} (documentation: {base_url}/docs)\n\n{dashboard}{key}{example}\n")
}

fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+".contains(c));
    if plain { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use kitfleet_types::ids::AccountId;

    use super::*;

    #[test]
    fn restart_prints_the_key_file_or_how_to_mint_a_key() {
        let greet = |owner| text("http://127.0.0.1:1", Path::new("/srv/kit fleet/owner-key"), &owner, None);
        assert!(greet(Owner::Kept).contains("KEY=$(cat '/srv/kit fleet/owner-key')"));
        let account = AccountId::generate();
        let lost = greet(Owner::Elsewhere(account));
        assert!(lost.contains(&format!("kitfleet key mint {account}")) && !lost.contains("curl"), "{lost}");
    }
}
