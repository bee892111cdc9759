//! WebKit's sandbox: web processes in bubblewrap, where the machine allows that.

use std::io;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::time::timeout;

use super::processes::Spawner;

/// What WebKit asks of the kernel: namespaces of its own, and file systems mounted in them.
const PROBE: &str = "--die-with-parent --unshare-pid --unshare-uts --unshare-net --ro-bind / / --dev /dev --proc /proc \
                     --tmpfs /tmp true";

/// How long bubblewrap may take. It takes milliseconds.
const PROBED_WITHIN: Duration = Duration::from_secs(5);

/// Whether web processes can be sandboxed here. Warns when not: a hole in WebKit then is a hole in the worker.
pub async fn is_possible(spawner: &Spawner) -> bool {
    let obstacle = match timeout(PROBED_WITHIN, probe(spawner)).await {
        Ok(Ok(words)) if words.is_empty() => return true,
        Ok(Ok(words)) => words,
        Ok(Err(error)) => error.to_string(),
        Err(_) => "it does not answer".to_owned(),
    };
    tracing::warn!(
        obstacle,
        "browsers run WITHOUT their sandbox, because bubblewrap does not work here: install `bubblewrap`, and allow \
         user namespaces (sysctl kernel.unprivileged_userns_clone=1; in a container, a seccomp profile that has them)"
    );
    false
}

/// Bubblewrap's complaint; empty when it works.
async fn probe(spawner: &Spawner) -> io::Result<String> {
    let mut command = Command::new("bwrap");
    command.args(PROBE.split_whitespace());
    let mut family = spawner.spawn(command).await?;
    let (_, _, mut stderr) = family.take_pipes()?;
    let mut words = String::new();
    stderr.read_to_string(&mut words).await?;
    let status = family.leader_ended().await;
    family.end().await;
    Ok(if status.success() { String::new() } else { format!("{status}: {}", words.trim()) })
}
