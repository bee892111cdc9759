//! The walks of `docs/guide.md`, on real pages.

use tokio::process::Command;

use crate::support::{App, Site};

/// By operations, and by messages to an agent session.
fn walks() -> Vec<&'static str> {
    let guide = include_str!("../../../docs/guide.md");
    guide.split("```sh walk\n").skip(1).map(|rest| rest.split("```").next().expect("an end")).collect()
}

/// Contract: operations 43 to 48; files 2, 15; agents 48 to 52.
#[tokio::test]
async fn walks_of_the_guide_reach_their_ends() {
    let walks = walks();
    assert_eq!(walks.len(), 2, "{walks:?}");
    let app = App::webkit().with_second_factors().start().await;
    let (site, client) = (Site::start().await, app.client().await);
    for (walk, is_by_messages) in walks.into_iter().zip([false, true]) {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("receipt.pdf"), b"a receipt").expect("a file");
        let call =
            "call() { curl -fsS -H \"Authorization: Bearer $KEY\" -H 'Content-Type: application/json' \"$@\"; }\n";
        let mut shell = Command::new("bash");
        shell.args(["-euc", &format!("{call}{walk}")]).current_dir(folder.path());
        shell.env("URL", &client.base_url).env("KEY", client.key.as_ref().expect("a key"));
        shell.env("SHOP", site.url("/walk")).env("NO_PROXY", "*");
        let ran = shell.output().await.expect("a shell");
        let said = String::from_utf8(ran.stdout).expect("text");
        assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
        assert!(said.contains("receipt.pdf of 2026-11-20 was handed in."), "{said}");
        assert!(said.contains("Hand in the receipt of 2026-11-20?"), "{said}");
        if is_by_messages {
            let (_, downloads) = said.split_once("\"downloads\":").expect("downloads");
            assert!(downloads.contains("\"bytes\":5") && downloads.contains("\"status\":\"complete\""), "{said}");
        } else {
            assert_eq!(std::fs::read(folder.path().join("statement.pdf")).expect("a file"), b"xxxxx");
        }
    }
    app.stop().await;
}
